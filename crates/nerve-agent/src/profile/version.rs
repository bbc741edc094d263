//! Versions of agents, and the range of them that a profile was tested with.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, de};

/// A version of three numbers. A pre-release counts as its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version([u64; 3]);

impl Version {
    /// Returns the first word of a text that is a version, as in `codex-cli 0.169.0` or `GitHub Copilot CLI 1.0.102.`.
    pub fn in_text(text: &str) -> Option<Version> {
        text.split_whitespace().find_map(|word| word.trim_end_matches('.').parse().ok())
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Version, String> {
        let numbers = text.strip_prefix('v').unwrap_or(text).split(['-', '+']).next().unwrap_or_default();
        let numbers: Option<Vec<u64>> = numbers.split('.').map(|number| number.parse().ok()).collect();
        let numbers = numbers.and_then(|numbers| numbers.try_into().ok());
        numbers
            .map(Version)
            .ok_or_else(|| format!("invalid version '{text}': expected three numbers, such as 1.2.3"))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.0;
        write!(f, "{major}.{minor}.{patch}")
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Version, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

/// The versions that a profile was tested with.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestedVersions {
    /// Package of the npm registry that contains the program.
    #[serde(default)]
    pub package: Option<String>,
    /// The oldest tested version. Older ones are refused.
    pub oldest: Version,
    /// The newest tested version.
    pub newest: Version,
}

impl TestedVersions {
    /// Returns true if the version was tested or lies between tested ones.
    pub fn contains(&self, version: Version) -> bool {
        (self.oldest..=self.newest).contains(&version)
    }
}

impl fmt::Display for TestedVersions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.oldest, self.newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn versions_compare_by_number() {
        assert!(version("0.99.0") < version("0.100.0"));
        assert_eq!(version("v1.2.3-alpha.4+linux"), version("1.2.3"));
        for bad in ["", "1.2", "1.2.3.4", "1.2.x"] {
            assert!(bad.parse::<Version>().is_err(), "{bad}");
        }
    }

    #[test]
    fn version_is_found_in_the_output_of_each_agent() {
        for (text, found) in [
            ("2.1.330 (Claude Code)\n", "2.1.330"),
            ("codex-cli 0.169.0\n", "0.169.0"),
            ("1.18.33\n", "1.18.33"),
            ("GitHub Copilot CLI 1.0.102.\nRun it.\n", "1.0.102"),
        ] {
            assert_eq!(Version::in_text(text), Some(version(found)));
        }
        assert_eq!(Version::in_text("Error: native binary not installed."), None);
    }

    #[test]
    fn range_includes_both_ends() {
        let tested = TestedVersions { package: None, oldest: version("1.0.0"), newest: version("1.2.0") };
        assert_eq!(tested.to_string(), "1.0.0 to 1.2.0");
        for (text, is_tested) in [("0.9.9", false), ("1.0.0", true), ("1.2.0", true), ("1.2.1", false)] {
            assert_eq!(tested.contains(version(text)), is_tested, "{text}");
        }
    }
}
