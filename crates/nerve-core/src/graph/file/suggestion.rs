//! "Did you mean …?"

/// The one of `known` that `name` most likely was meant to be, if one is near.
pub(super) fn near<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Longer names are not compared: it takes the product of both lengths.
    const LONGEST: usize = 64;
    let wanted: Vec<char> = name.chars().take(LONGEST + 1).map(|c| c.to_ascii_lowercase()).collect();
    if wanted.is_empty() || wanted.len() > LONGEST {
        return None;
    }
    known
        .into_iter()
        .filter(|candidate| !candidate.is_empty() && candidate.len() <= LONGEST && *candidate != name)
        .map(|candidate| (distance(&wanted, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len().max(wanted.len()) / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many letters must be changed, put in, left out or swapped with their neighbour (optimal string alignment).
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
    use super::near;

    #[test]
    fn slips_are_understood_and_other_names_are_not() {
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
            assert_eq!(near(slip, known), meant, "{slip}");
        }
    }

    #[test]
    fn long_names_cost_nothing() {
        assert_eq!(near(&"x".repeat(1 << 20), ["x"]), None);
    }
}
