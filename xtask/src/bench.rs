//! Builds the benchmarks, runs them one after another and writes their output to `docs/benchmarks.md`.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use anyhow::{Context, bail};

use crate::project::{self, Project, cargo_program, string_field};

/// Benchmarks in `crates/nerve/benches`, in the order in which they run.
const BENCHES: [&str; 21] = [
    "turns",
    "answers",
    "throughput",
    "scrollback",
    "server",
    "floods",
    "load",
    "history",
    "recording",
    "replay",
    "view",
    "kills",
    "graphs",
    "panes",
    "agents",
    "wire",
    "http",
    "machines",
    "proxy",
    "web",
    "daily",
];

const PAGE: &str = "docs/benchmarks.md";

/// Marks a row whose goal was missed.
const MISSED: &str = "**MISSED**";

/// Runs all benchmarks and writes the page, or runs the named ones and prints their output. Returns `false` if a goal was missed.
pub(crate) fn run(project: &Project, names: &[String]) -> anyhow::Result<bool> {
    if let Some(unknown) = names.iter().find(|name| !BENCHES.contains(&name.as_str())) {
        bail!("unknown benchmark '{unknown}'; there are: {}", BENCHES.join(", "));
    }
    let machine = machine(project);
    let programs = build(project)?;
    let mut sections = Vec::new();
    for name in
        BENCHES.iter().filter(|name| names.is_empty() || names.iter().any(|selected| selected == *name))
    {
        eprintln!("\n== {name}");
        let section = section(project, &programs, name).with_context(|| format!("benchmark '{name}'"))?;
        println!("{section}");
        sections.push(section);
    }
    let missed = missed_rows(&sections);
    if names.is_empty() {
        fs::write(project.root.join(PAGE), page(&machine, &sections, &missed))
            .with_context(|| format!("cannot write {PAGE}"))?;
        println!("written: {PAGE}");
    }
    for row in &missed {
        println!("missed: {row}");
    }
    Ok(missed.is_empty())
}

/// Builds all benchmarks before any runs, so that edits during the run have no effect. Returns cargo's artifact messages.
fn build(project: &Project) -> anyhow::Result<String> {
    let mut command = project.command(cargo_program());
    command.args(["bench", "--package", "nerve", "--benches", "--no-run", "--locked"]);
    let artifacts = project::output(command.arg("--message-format=json-render-diagnostics"))?;
    Ok(String::from_utf8(artifacts)?)
}

/// Runs one benchmark and returns the section of the page that it prints.
fn section(project: &Project, artifacts: &str, name: &str) -> anyhow::Result<String> {
    let program = program(artifacts, name).context("cargo built no such program")?;
    let output = project::output(project.command(program).arg("--bench"))?;
    let text = String::from_utf8(output)?;
    if !text.starts_with("## ") {
        bail!("it printed no section");
    }
    Ok(format!("{}\n\n`cargo bench -p nerve --bench {name}`\n", text.trim_end()))
}

/// Returns the path of a benchmark's program. The first `name` in an artifact message is the target's.
pub(crate) fn program<'a>(artifacts: &'a str, name: &str) -> Option<&'a str> {
    let is_bench =
        |line: &&str| line.contains("\"kind\":[\"bench\"]") && string_field(line, "name") == Some(name);
    string_field(artifacts.lines().find(is_bench)?, "executable")
}

fn page(machine: &str, sections: &[String], missed: &[String]) -> String {
    let goals: usize = sections.iter().map(|section| section.matches("| met |").count()).sum();
    let mut page = format!(
        "# Benchmarks\n\n<!-- Written by `cargo xtask bench`; changes by hand are lost. -->\n\n\
         Made by `cargo xtask bench` in one run, each next to its peer. {} of {} goals met.\n\n",
        goals,
        goals + missed.len()
    );
    for row in missed {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "* missed: {row}");
    }
    if !missed.is_empty() {
        page.push('\n');
    }
    page.push_str(machine);
    for section in sections {
        page.push('\n');
        page.push_str(section);
    }
    page
}

/// Returns the rows with missed goals as `what: median (goal)`.
fn missed_rows(sections: &[String]) -> Vec<String> {
    let rows = sections.iter().flat_map(|section| section.lines()).filter(|line| line.contains(MISSED));
    rows.map(|row| {
        let mut cells = row.trim_matches('|').split('|').map(str::trim);
        let mut cell = || cells.next().unwrap_or_default().to_string();
        let (what, median, _, goal) = (cell(), cell(), cell(), cell());
        format!("{what}: {median} (goal {goal})")
    })
    .collect()
}

/// Returns a table with machine, date and versions.
fn machine(project: &Project) -> String {
    let file = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |path: &str, name: &str| {
        let text = file(path);
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').map_or("", |(_, value)| value).trim().to_string()
    };
    let virtual_machine = field("/proc/cpuinfo", "flags").contains("hypervisor");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = file("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" ");
    let rows = [
        ("date", first_line(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"]))),
        ("commit", first_line(project.command("git").args(["describe", "--always", "--dirty"]))),
        ("processor", field("/proc/cpuinfo", "model name")),
        ("cores", format!("{cores}{}", if virtual_machine { ", a virtual machine" } else { "" })),
        ("memory", field("/proc/meminfo", "MemTotal")),
        ("kernel", file("/proc/sys/kernel/osrelease").trim().to_string()),
        ("load before the run (1, 5, 15 min)", load),
        ("rustc", first_line(Command::new("rustc").arg("--version"))),
        ("bash", first_line(Command::new("bash").arg("--version"))),
        (
            "pexpect",
            first_line(Command::new("python3").args(["-c", "import pexpect; print(pexpect.__version__)"])),
        ),
    ];
    let mut table = "| | |\n|---|---|\n".to_string();
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = writeln!(table, "| {name} | {value} |");
    }
    table
}

/// Returns the first line of a command's output; empty if the command fails.
fn first_line(command: &mut Command) -> String {
    let Ok(output) = command.output() else { return String::new() };
    let text = String::from_utf8_lossy(&output.stdout);
    if output.status.success() { text.lines().next().unwrap_or_default().to_string() } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTION: &str = "## A\n\n| what | median | min – max | goal | |\n|---|--:|--:|--:|---|\n\
        | fast | 1 ms | 1 – 2 | ≤ 3 ms | met |\n| slow | 9 ms | 8 – 9 | ≤ 3 ms | **MISSED** |\n";

    #[test]
    fn page_begins_with_missed_goals() {
        let sections = [SECTION.to_string()];
        let missed = missed_rows(&sections);
        assert_eq!(missed, ["slow: 9 ms (goal ≤ 3 ms)"]);
        let page = page("| | |\n|---|---|\n| cores | 2 |\n", &sections, &missed);
        assert!(page.contains("1 of 2 goals met.\n\n* missed: slow: 9 ms (goal ≤ 3 ms)\n\n| | |"), "{page}");
        assert!(page.ends_with(SECTION));
    }

    #[test]
    fn finds_a_benchmarks_program() {
        let artifacts = "{\"reason\":\"compiler-artifact\",\"package_id\":\"x\",\"target\":{\"kind\":[\"lib\"],\"name\":\"turns\"},\"executable\":null}\n\
            {\"reason\":\"compiler-artifact\",\"target\":{\"kind\":[\"bench\"],\"name\":\"turns\"},\"executable\":\"/t/turns-1\",\"fresh\":true}\n";
        assert_eq!(program(artifacts, "turns"), Some("/t/turns-1"));
        assert_eq!(program(artifacts, "answers"), None);
    }

    #[test]
    fn machine_table_has_date_and_kernel() {
        let machine = machine(&Project::find().unwrap());
        assert!(machine.contains("| date | 2") && machine.contains("| kernel | "), "{machine}");
    }
}
