//! Shortens the names of tools: Anthropic's may have 128 characters, OpenAI's 64.

/// Maps the shortened tool names of a request back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ToolNames {
    /// Pairs of short and long names; only those that differ.
    short: Vec<(String, String)>,
}

const MAX_LENGTH: usize = 64;

impl ToolNames {
    pub(super) fn new<'a>(names: impl Iterator<Item = &'a str>) -> ToolNames {
        let long = names.filter(|name| name.len() > MAX_LENGTH);
        ToolNames { short: long.map(|name| (shortened(name), name.to_string())).collect() }
    }

    /// Returns the tool's name on Anthropic's side.
    pub(super) fn to_anthropic<'a>(&'a self, name: &'a str) -> &'a str {
        self.short.iter().find(|(short, _)| short == name).map_or(name, |(_, long)| long)
    }
}

/// Returns the tool's name on OpenAI's side. It depends only on the name.
pub(super) fn to_openai(name: &str) -> String {
    if name.len() > MAX_LENGTH { shortened(name) } else { name.to_string() }
}

fn shortened(name: &str) -> String {
    // FNV-1a: needs no protection against deliberate collisions.
    let hash =
        name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let begin: String = name.chars().take(MAX_LENGTH - 9).collect();
    format!("{begin}_{hash:08x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_round_trip() {
        let long =
            [format!("mcp__server__{}_a", "x".repeat(80)), format!("mcp__server__{}_b", "x".repeat(80))];
        let names = ToolNames::new(long.iter().map(String::as_str).chain(["Bash"]));
        let short = [to_openai(&long[0]), to_openai(&long[1])];
        assert_eq!(short[0].len(), 64);
        assert_ne!(short[0], short[1]);
        assert_eq!(names.to_anthropic(&short[1]), long[1]);
        assert_eq!((names.to_anthropic("Bash"), to_openai("Bash").as_str()), ("Bash", "Bash"));
    }
}
