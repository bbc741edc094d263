//! The table of agents and capabilities in `docs/agents.md`, made from the results and the profiles.

use std::fs;

use anyhow::{Context, bail};

use super::options::SIZES;
use super::results::Results;
use crate::agents::{AGENTS, Agent};
use crate::project::Project;
use crate::report;

/// The page with the table.
pub(super) const PAGE: &str = "docs/agents.md";

/// The line above the table.
const BEGIN: &str = "<!-- capabilities: written by `cargo xtask matrix`; changes by hand are lost -->\n";
/// The line below the table.
const END: &str = "<!-- end of the capabilities -->\n";

/// A column of the table.
struct Column {
    title: &'static str,
    source: Source,
}

/// The facts behind a column.
enum Source {
    /// Results of these scenarios.
    Scenarios(&'static [&'static str]),
    /// A line of the profile that starts with this text.
    Profile(&'static str),
}

const COLUMNS: [Column; 10] = [
    Column { title: "answers", source: Source::Scenarios(&["short", "15 turns", "long", "slow"]) },
    Column { title: "session file", source: Source::Profile("transcript = ") },
    Column { title: "dialogs", source: Source::Scenarios(&["dialog", "refusal"]) },
    Column { title: "paste", source: Source::Scenarios(&["paste"]) },
    Column { title: "interrupt", source: Source::Scenarios(&["interrupt"]) },
    Column {
        title: "API errors",
        source: Source::Scenarios(&["400", "401", "429", "529", "cut before", "cut after"]),
    },
    Column { title: "crash", source: Source::Scenarios(&["kill -9"]) },
    Column { title: "resume", source: Source::Profile("resume = [") },
    Column { title: "fork", source: Source::Scenarios(&["fork"]) },
    Column { title: "proxy", source: Source::Profile("[proxy]") },
];

/// Writes the table into the page.
///
/// # Errors
/// The page or a profile cannot be read, or the page cannot be written.
pub(super) fn write(project: &Project, results: &Results, pinned: &[(String, String)]) -> anyhow::Result<()> {
    let (page, new) = pages(project, results, pinned)?;
    if page != new {
        fs::write(project.root.join(PAGE), new).with_context(|| format!("cannot write {PAGE}"))?;
    }
    Ok(())
}

/// Fails if the table in the page differs from the results.
///
/// # Errors
/// The table is out of date, or a file cannot be read.
pub(super) fn check(
    project: &Project,
    results: &Results,
    pinned: &[(String, String)],
) -> anyhow::Result<report::Outcome> {
    let (page, new) = pages(project, results, pinned)?;
    if page != new {
        bail!("the table in {PAGE} is out of date; run `cargo xtask matrix --page`");
    }
    Ok(report::Outcome::Passed(format!("{} agents", AGENTS.len())))
}

/// Returns the page as it is, and as it should be.
fn pages(
    project: &Project,
    results: &Results,
    pinned: &[(String, String)],
) -> anyhow::Result<(String, String)> {
    let page = read(project, PAGE)?;
    let mut rows = Vec::new();
    for agent in &AGENTS {
        let profile = read(project, &format!("crates/nerve-agent/profiles/{}.toml", agent.name))?;
        let version = pinned.iter().find(|(package, _)| package == agent.package);
        let (_, version) = version.with_context(|| format!("{} is not pinned", agent.package))?;
        rows.push(row(agent, version, &profile, results));
    }
    let new = replace_table(&page, &render(&rows)).with_context(|| format!("{PAGE} has no marked table"))?;
    Ok((page, new))
}

fn read(project: &Project, file: &str) -> anyhow::Result<String> {
    fs::read_to_string(project.root.join(file)).with_context(|| format!("cannot read {file}"))
}

/// Replaces the text between the marks. `None` if a mark is missing.
fn replace_table(page: &str, table: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{table}{END}{after}"))
}

fn render(rows: &[Vec<String>]) -> String {
    let titles: Vec<&str> = COLUMNS.iter().map(|column| column.title).collect();
    let head = format!("| agent | npm package | version | {} | sizes |\n", titles.join(" | "));
    let line = format!("|---|---|---|{}---|\n", ":-:|".repeat(COLUMNS.len()));
    let rows: String = rows.iter().map(|cells| format!("| {} |\n", cells.join(" | "))).collect();
    format!("{head}{line}{rows}")
}

fn row(agent: &Agent, version: &str, profile: &str, results: &Results) -> Vec<String> {
    let mut cells = vec![agent.title.to_string(), format!("`{}`", agent.package), version.to_string()];
    let cell = |column: &Column| match column.source {
        Source::Scenarios(scenarios) => mark(agent, version, scenarios, results),
        Source::Profile(start) if profile.lines().any(|line| line.starts_with(start)) => "✓",
        Source::Profile(_) => "–",
    };
    cells.extend(COLUMNS.iter().map(|column| cell(column).to_string()));
    cells.push(sizes(agent, version, results));
    cells
}

/// Returns the mark of the worst result of some scenarios in all variants and sizes.
fn mark(agent: &Agent, version: &str, scenarios: &[&str], results: &Results) -> &'static str {
    let of = |wanted: &str| -> Vec<&str> {
        let outcomes = results.of_agent(agent.name, version).filter(|(key, _)| key[3] == wanted);
        outcomes.map(|(_, outcome)| outcome.verdict.as_str()).collect()
    };
    let verdicts: Vec<Vec<&str>> = scenarios.iter().map(|scenario| of(scenario)).collect();
    let has = |verdict: &str| verdicts.iter().flatten().any(|other| *other == verdict);
    if has("failed") {
        "✗"
    } else if verdicts.iter().any(Vec::is_empty) {
        "not run"
    } else if has("partial") {
        "(✓)"
    } else if has("passed") {
        "✓"
    } else {
        "–"
    }
}

/// Lists the sizes in which scenarios ran and none failed.
fn sizes(agent: &Agent, version: &str, results: &Results) -> String {
    let passes = |size: &&str| {
        let mut outcomes =
            results.of_agent(agent.name, version).filter(|(key, _)| key[2] == *size).peekable();
        outcomes.peek().is_some() && outcomes.all(|(_, outcome)| outcome.verdict != "failed")
    };
    let passed: Vec<&str> = SIZES.iter().copied().filter(passes).collect();
    if passed.is_empty() { "–".to_string() } else { passed.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = "name = \"codex\"\ntranscript = \"codex\"\n[session]\nresume = [\"resume\"]\n";

    fn cells(verdicts: &[(&str, &str, &str, &str)]) -> Vec<String> {
        let name =
            format!("nerve-xtask-capabilities-{}-{:?}", std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(name);
        let mut results = Results::open(&path).unwrap();
        for (variant, size, scenario, verdict) in verdicts {
            results.add(&[*variant, "1.0.0", *size, *scenario].map(String::from), verdict, "").unwrap();
        }
        fs::remove_file(&path).unwrap();
        row(&AGENTS[1], "1.0.0", PROFILE, &results)
    }

    fn cell<'a>(cells: &'a [String], title: &str) -> &'a str {
        let at = COLUMNS.iter().position(|column| column.title == title).unwrap();
        &cells[at + 3]
    }

    #[test]
    fn worst_result_of_all_variants_and_sizes_counts() {
        let row = cells(&[
            ("codex", "120x40", "interrupt", "passed"),
            ("codex-inline", "60x20", "interrupt", "failed"),
            ("codex", "120x40", "dialog", "passed"),
            ("codex", "120x40", "refusal", "partial"),
            ("codex", "120x40", "fork", "skipped"),
            ("codex", "120x40", "short", "passed"),
            ("codexes", "200x60", "paste", "passed"),
        ]);
        assert_eq!(cell(&row, "interrupt"), "✗");
        assert_eq!(cell(&row, "dialogs"), "(✓)");
        assert_eq!(cell(&row, "fork"), "–");
        assert_eq!(cell(&row, "answers"), "not run", "three of its scenarios have no result");
        assert_eq!(cell(&row, "paste"), "not run", "another agent's result");
        assert_eq!(row.last().unwrap(), "120x40");
    }

    #[test]
    fn profile_decides_what_no_scenario_tests() {
        let row = cells(&[]);
        assert_eq!(["session file", "resume", "proxy"].map(|title| cell(&row, title)), ["✓", "✓", "–"]);
    }

    #[test]
    fn table_replaces_the_old_one_only() {
        let page = format!("# Agents\n{BEGIN}old\n{END}text\n");
        assert_eq!(replace_table(&page, "new\n").unwrap(), format!("# Agents\n{BEGIN}new\n{END}text\n"));
        assert_eq!(replace_table("# Agents\n", "new\n"), None);
    }
}
