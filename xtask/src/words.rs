//! The word check: fails on words that plain technical English does without.
//!
//! Each of them hides who does what (`told`, `somebody`) or replaces a standard term (`beside`, `goes on`). `xtask/words.txt` lists the
//! files that still contain some, with a count each. A count may only go down.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, bail};

use crate::project::{self, Project};
use crate::report::Outcome;

/// Words that are searched for, in lower case, with what to write instead.
const WORDS: [(&str, &str); 9] = [
    ("told", "notified, reported, sent, or the subject that does it"),
    ("whoever", "the role: client, caller, user"),
    ("somebody", "the role: client, caller, user"),
    ("nobody", "no client, no caller, no one"),
    ("anybody", "any client, any caller"),
    ("goes on", "continues, resumes"),
    ("go on", "continue, resume"),
    ("is asked", "is requested, receives a request"),
    ("beside", "next to, in addition to"),
];

/// Counts of the files that are not clean yet, as `COUNT PATH` lines.
const ALLOWED: &str = "xtask/words.txt";

/// Files in which the words are data, or which are generated.
const SKIPPED: [&str; 3] = ["xtask/src/words.rs", "xtask/words.txt", "Cargo.lock"];

/// Fails if a file contains more of the words than its allowed count, or if the list is out of date.
///
/// # Errors
/// Names each file, line and word, or the counts to lower.
pub(crate) fn check(project: &Project) -> anyhow::Result<Outcome> {
    let allowed = allowed(project)?;
    let mut total = 0;
    let mut problems = Vec::new();
    let hits = hits(project)?;
    for (path, hits) in &hits {
        total += hits.len();
        let limit = allowed.get(path).copied().unwrap_or(0);
        if hits.len() > limit {
            problems.push(format!("{path}: {} of the words, {limit} allowed:", hits.len()));
            problems.extend(hits.iter().map(|hit| format!("  {hit}")));
        }
    }
    for (path, limit) in &allowed {
        let count = hits.get(path).map_or(0, Vec::len);
        if count < *limit {
            problems.push(format!("{path}: now {count}, lower its count in {ALLOWED} (`cargo xtask words`)"));
        }
    }
    if !problems.is_empty() {
        eprintln!("{}", problems.join("\n"));
        bail!("{} problems with words; see xtask/src/words.rs for better ones", problems.len());
    }
    Ok(Outcome::Passed(format!("{total} left in {} files", allowed.len())))
}

/// Lowers the counts of the list to what the files contain now. A file that got worse keeps its old count.
///
/// # Errors
/// The list cannot be read or written.
pub(crate) fn update(project: &Project) -> anyhow::Result<bool> {
    let allowed = allowed(project)?;
    let mut list = String::new();
    for (path, hits) in hits(project)? {
        let count = allowed.get(&path).map_or(0, |limit| hits.len().min(*limit));
        if count > 0 {
            writeln!(list, "{count} {path}")?;
        }
    }
    fs::write(project.root.join(ALLOWED), list).with_context(|| format!("cannot write {ALLOWED}"))?;
    println!("written: {ALLOWED}");
    Ok(true)
}

fn allowed(project: &Project) -> anyhow::Result<BTreeMap<String, usize>> {
    let text =
        fs::read_to_string(project.root.join(ALLOWED)).with_context(|| format!("cannot read {ALLOWED}"))?;
    text.lines()
        .map(|line| {
            let (count, path) =
                line.split_once(' ').with_context(|| format!("{ALLOWED}: bad line {line:?}"))?;
            Ok((path.to_string(), count.parse().with_context(|| format!("{ALLOWED}: bad count {line:?}"))?))
        })
        .collect()
}

/// All occurrences by file, as `LINE: WORD (INSTEAD)`.
fn hits(project: &Project) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
    let mut list = project.command("git");
    list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"]);
    list.args(["*.rs", "*.py", "*.md", "*.toml", "*.sh", "*.yaml"]);
    let list = String::from_utf8(project::output(&mut list)?).context("a file's name is not UTF-8")?;
    let mut files = BTreeMap::new();
    for path in list.split('\0').filter(|path| !path.is_empty() && !SKIPPED.contains(path)) {
        // Listed but deleted, or no text.
        let Ok(text) = fs::read_to_string(project.root.join(path)) else { continue };
        let hits = hits_in(&text);
        if !hits.is_empty() {
            files.insert(path.to_string(), hits);
        }
    }
    Ok(files)
}

fn hits_in(text: &str) -> Vec<String> {
    let mut hits = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.to_lowercase();
        for (word, instead) in WORDS {
            for _ in 0..count(&line, word) {
                hits.push(format!("{}: {word} (better: {instead})", index + 1));
            }
        }
    }
    hits
}

/// Occurrences of a word that are not part of a longer word. Underscores separate words, so identifiers count too.
fn count(line: &str, word: &str) -> usize {
    let is_boundary = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    line.match_indices(word)
        .filter(|(at, _)| {
            is_boundary(line[..*at].chars().next_back())
                && is_boundary(line[at + word.len()..].chars().next())
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_words_in_prose_and_identifiers() {
        assert_eq!(hits_in("/// Who is told.\nfn told_again() {}\nlet x = 1;").len(), 2);
        assert_eq!(hits_in("It GOES ON.").len(), 1);
    }

    #[test]
    fn ignores_parts_of_longer_words() {
        assert!(hits_in("untold, besides, bolstered").is_empty());
    }
}
