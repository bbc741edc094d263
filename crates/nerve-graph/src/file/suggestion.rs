//! Suggestions for misspelled names.

/// Returns the most similar of the known names, if one is similar enough.
pub(super) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Longer names are not compared, because the cost is the product of the lengths.
    const MAX_CHARS: usize = 64;
    let wanted: Vec<char> = name.chars().take(MAX_CHARS + 1).map(|c| c.to_ascii_lowercase()).collect();
    if wanted.is_empty() || wanted.len() > MAX_CHARS {
        return None;
    }
    known
        .into_iter()
        .filter(|candidate| !candidate.is_empty() && candidate.len() <= MAX_CHARS && *candidate != name)
        .map(|candidate| (distance(&wanted, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len().max(wanted.len()) / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the edit distance with transpositions (optimal string alignment).
fn distance(wanted: &[char], candidate: &str) -> usize {
    let candidate: Vec<char> = candidate.chars().map(|c| c.to_ascii_lowercase()).collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=candidate.len()).collect();
    for (i, a) in wanted.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in candidate.iter().enumerate() {
            let mut best = (last[j] + usize::from(a != b)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == candidate[j - 1] && wanted[i - 1] == *b {
                best = best.min(before_last[j - 1] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[candidate.len()]
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
