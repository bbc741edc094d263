//! The results of the scenarios, kept in a file of the repository: a run resumes an interrupted one, also on another machine.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::{Value, json};

/// Names a result: variant, version, size, scenario.
pub(super) type Key = [String; 4];

/// A result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    /// `passed`, `partial`, `failed` or `skipped`.
    pub(super) verdict: String,
    pub(super) note: String,
}

/// All results so far. A later one of the same key replaces the earlier.
#[derive(Debug)]
pub(super) struct Results {
    path: PathBuf,
    file: File,
    known: BTreeMap<Key, Outcome>,
    /// Lines of measurements by their name.
    measurements: BTreeMap<String, String>,
}

impl Results {
    /// Opens the file. An incomplete last line of an interrupted run is ignored.
    pub(super) fn open(path: &Path) -> anyhow::Result<Results> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let file = File::options().create(true).append(true).open(path)?;
        let mut results =
            Results { path: path.to_path_buf(), file, known: BTreeMap::new(), measurements: BTreeMap::new() };
        for (number, line) in text.split_inclusive('\n').enumerate() {
            match serde_json::from_str(line) {
                Ok(line) => results.take(&line),
                Err(_) if !line.ends_with('\n') => {}
                Err(error) => bail!("{}:{}: {error}", path.display(), number + 1),
            }
        }
        if !text.is_empty() && !text.ends_with('\n') {
            results.file.write_all(b"\n")?;
        }
        Ok(results)
    }

    fn take(&mut self, line: &Value) {
        let text = |name: &str| line[name].as_str().unwrap_or_default().to_string();
        if line["measurement"].is_string() {
            self.measurements.insert(text("measurement"), text("note"));
            return;
        }
        let key = ["variant", "version", "size", "scenario"].map(text);
        self.known.insert(key, Outcome { verdict: text("verdict"), note: text("note") });
    }

    /// Adds a result.
    pub(super) fn add(&mut self, key: &Key, verdict: &str, note: &str) -> std::io::Result<()> {
        self.append(&encode(key, verdict, note))
    }

    /// Adds a measurement.
    pub(super) fn add_measurement(&mut self, name: &str, note: &str) -> std::io::Result<()> {
        self.append(&encode_measurement(name, note))
    }

    /// Rewrites the file in a fixed order, without replaced results and with the first line of each note: the rest is a screen.
    pub(super) fn compact(&mut self) -> std::io::Result<()> {
        let outcomes =
            self.known.iter().map(|(key, outcome)| encode(key, &outcome.verdict, first_line(&outcome.note)));
        let measurements = self.measurements.iter().map(|(name, note)| encode_measurement(name, note));
        let text: String = outcomes.chain(measurements).map(|line| format!("{line}\n")).collect();
        let new = self.path.with_extension("new");
        fs::write(&new, text)?;
        fs::rename(new, &self.path)?;
        self.file = File::options().append(true).open(&self.path)?;
        Ok(())
    }

    fn append(&mut self, line: &Value) -> std::io::Result<()> {
        self.take(line);
        self.file.write_all(format!("{line}\n").as_bytes())
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Outcome> {
        self.known.get(key)
    }

    /// Returns the results of one version of an agent in all its variants, which are named like it: `codex`, `codex-inline`.
    pub(super) fn of_agent<'a>(
        &'a self,
        agent: &'a str,
        version: &'a str,
    ) -> impl Iterator<Item = (&'a Key, &'a Outcome)> {
        let is_variant = move |variant: &str| variant.split('-').next() == Some(agent);
        self.known.iter().filter(move |(key, _)| is_variant(&key[0]) && key[1] == version)
    }

    /// Returns the tested versions of a variant.
    pub(super) fn versions(&self, variant: &str) -> Vec<String> {
        let mut versions: Vec<String> =
            self.known.keys().filter(|key| key[0] == variant).map(|key| key[1].clone()).collect();
        versions.sort_by_key(|version| std::cmp::Reverse(super::versions::parts(version)));
        versions.dedup();
        versions
    }

    pub(super) fn measurements(&self) -> impl Iterator<Item = &String> {
        self.measurements.values()
    }

    pub(super) fn has_failures(&self) -> bool {
        self.known.values().any(|outcome| outcome.verdict == "failed")
    }
}

fn encode([variant, version, size, scenario]: &Key, verdict: &str, note: &str) -> Value {
    json!({
        "variant": variant, "version": version, "size": size, "scenario": scenario,
        "verdict": verdict, "note": note,
    })
}

fn encode_measurement(name: &str, note: &str) -> Value {
    json!({ "measurement": name, "note": note })
}

pub(super) fn first_line(note: &str) -> &str {
    note.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_survive_an_interrupted_run() {
        let path = std::env::temp_dir().join(format!("nerve-xtask-results-{}", std::process::id()));
        let key: Key = ["codex", "0.169.0", "60x20", "short"].map(String::from);
        Results::open(&path).unwrap().add(&key, "failed", "why").unwrap();
        File::options().append(true).open(&path).unwrap().write_all(b"{\"variant\":").unwrap();
        let mut results = Results::open(&path).unwrap();
        assert!(results.has_failures());
        results.add(&key, "passed", "").unwrap();
        results.compact().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1);
        let results = Results::open(&path).unwrap();
        assert_eq!(results.get(&key).unwrap().verdict, "passed");
        assert_eq!(results.versions("codex"), ["0.169.0"]);
        fs::remove_file(path).unwrap();
    }
}
