//! Suggestions for misspelled names.

/// Returns the most similar of the known names, if one is similar enough.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Longer names are not compared, because the cost is the product of the lengths.
    const MAX_LEN: usize = 64;
    if name.is_empty() || name.len() > MAX_LEN {
        return None;
    }
    let lower = name.to_ascii_lowercase();
    known
        .into_iter()
        .filter(|candidate| !candidate.is_empty() && candidate.len() <= MAX_LEN && *candidate != name)
        .map(|candidate| (strsim::osa_distance(&lower, &candidate.to_ascii_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len().max(lower.len()) / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn typos_are_recognized() {
        let known = ["depends_on", "input", "node", "max_parallel"];
        for (slip, meant) in [
            ("depend_on", Some("depends_on")),
            ("dependsOn", Some("depends_on")),
            ("inptu", Some("input")),
            ("Node", Some("node")),
            ("max-parallel", Some("max_parallel")),
            ("timeout", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(nearest(slip, known), meant, "{slip}");
        }
    }

    #[test]
    fn long_names_are_not_compared() {
        assert_eq!(nearest(&"x".repeat(1 << 20), ["x"]), None);
    }
}
