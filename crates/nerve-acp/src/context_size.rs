//! Sizes of the models' contexts.
//!
//! Claude Code 2.1.330, Codex 0.169, Gemini CLI 0.61 and Qwen Code 0.24 contain these numbers.

const K200: u64 = 200_000;
const M1: u64 = 1_000_000;

/// Sizes in tokens, ascending, by the beginning of the model's name. The first match applies. A plan or a setting selects one of
/// several sizes.
const SIZES: [(&str, &[u64]); 25] = [
    ("claude-3", &[K200]),
    ("claude-haiku-4", &[K200]),
    ("claude-haiku-5", &[M1]),
    ("claude-sonnet-4", &[K200, M1]),
    ("claude-sonnet-5", &[M1]),
    ("claude-opus-4-6", &[K200, M1]),
    ("claude-opus-4-7", &[M1]),
    ("claude-opus-4-8", &[M1]),
    ("claude-opus-4", &[K200]),
    ("claude-opus-5", &[M1]),
    ("claude-fable-5", &[M1]),
    ("claude-mythos-5", &[M1]),
    ("gpt-6.1-terra", &[500_000, 872_000]),
    ("gpt-6", &[272_000, 872_000]),
    ("gpt-5.6", &[272_000, 872_000]),
    ("gpt-5", &[272_000]),
    ("gemini-", &[1_048_576]),
    ("gemma-4", &[256_000]),
    ("qwen3-coder-plus", &[M1]),
    ("qwen3-coder-flash", &[M1]),
    ("qwen3.", &[M1]),
    ("qwen-plus-latest", &[M1]),
    ("qwen-flash-latest", &[M1]),
    ("coder-model", &[M1]),
    ("qwen", &[262_144]),
];

/// Returns the size of a model's context in tokens: the smallest one that holds `used` tokens. `None`: the model is not known, or
/// has a larger context than is known.
pub(crate) fn find_size(model: &str, used: u64) -> Option<u64> {
    // Some agents add the provider: `anthropic/claude-opus-5`.
    let name = model.rsplit('/').next().unwrap_or(model);
    let (_, sizes) = SIZES.iter().find(|(prefix, _)| name.starts_with(prefix))?;
    sizes.iter().copied().find(|size| *size >= used)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_match_is_the_most_specific() {
        for (at, (prefix, _)) in SIZES.iter().enumerate() {
            let earlier = SIZES[..at].iter().find(|(earlier, _)| prefix.starts_with(earlier));
            assert_eq!(earlier, None, "{prefix}");
        }
    }

    #[test]
    fn context_is_as_large_as_its_content() {
        assert_eq!(find_size("claude-sonnet-4-6", 100), Some(K200));
        assert_eq!(find_size("claude-sonnet-4-6", K200 + 1), Some(M1));
        assert_eq!(find_size("anthropic/claude-opus-4-8", 100), Some(M1));
        assert_eq!(find_size("claude-opus-4-20250514", M1), None);
        assert_eq!(find_size("fake-model", 100), None);
    }
}
