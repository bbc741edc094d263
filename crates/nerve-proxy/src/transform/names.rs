//! Names of tools: Anthropic's may have 128 characters, OpenAI's 64.

/// The names of a request's tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Names {
    /// Short name, long name; only those that differ.
    short: Vec<(String, String)>,
}

const MOST: usize = 64;

impl Names {
    pub(super) fn new<'a>(names: impl Iterator<Item = &'a str>) -> Names {
        let long = names.filter(|name| name.len() > MOST);
        Names { short: long.map(|name| (shortened(name), name.to_string())).collect() }
    }

    /// As Anthropic's side knows it.
    pub(super) fn to_anthropic<'a>(&'a self, name: &'a str) -> &'a str {
        self.short.iter().find(|(short, _)| short == name).map_or(name, |(_, long)| long)
    }
}

/// As OpenAI's side knows it: the same for the same name, always.
pub(super) fn to_openai(name: &str) -> String {
    if name.len() > MOST { shortened(name) } else { name.to_string() }
}

fn shortened(name: &str) -> String {
    // FNV-1a: the name of a tool is no secret and nobody's enemy.
    let hash =
        name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let begin: String = name.chars().take(MOST - 9).collect();
    format!("{begin}_{hash:08x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_shortened_and_known_again() {
        let long =
            [format!("mcp__server__{}_a", "x".repeat(80)), format!("mcp__server__{}_b", "x".repeat(80))];
        let names = Names::new(long.iter().map(String::as_str).chain(["Bash"]));
        let short = [to_openai(&long[0]), to_openai(&long[1])];
        assert_eq!(short[0].len(), 64);
        assert_ne!(short[0], short[1]);
        assert_eq!(names.to_anthropic(&short[1]), long[1]);
        assert_eq!((names.to_anthropic("Bash"), to_openai("Bash").as_str()), ("Bash", "Bash"));
    }
}
