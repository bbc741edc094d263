//! `nerve search` over many turns and recordings.

use anyhow::{Result, bail, ensure};

use crate::archive::{Archive, RARE_WORDS, rare_word};
use crate::server_process::nerve;
use crate::support::{Figure, Goal, Report, Samples};
use crate::time;
use crate::words::COMMON;

/// Runs of each query.
const RUNS: usize = 5;
const GOAL: Goal = Goal::AtMost(200.0);

/// Queries of one kind.
struct Kind {
    name: &'static str,
    queries: Vec<Vec<String>>,
}

pub(crate) fn measure(report: &mut Report, archive: &Archive) -> Result<()> {
    let megabytes = |bytes: u64| Figure::one(bytes as f64 / 1e6, "MB");
    report.row("search: recorded output", &megabytes(archive.output_bytes));
    report.row("search: files of the recordings", &megabytes(archive.file_bytes));
    eprintln!("daily: the first search");
    let build = time(|| search(archive, &["quokka".to_string()]))?;
    report.row("search: the first one, which builds the index", &Figure::one(build / 1e3, "s"));
    let index = archive.home.nerve_home().join("search/index.db").metadata()?.len();
    report.row("search: the index", &megabytes(index));
    // Completes the index, and fills the page cache.
    let all = kinds();
    for query in all.iter().flat_map(|kind| &kind.queries) {
        search(archive, query)?;
    }
    for Kind { name, queries } in &all {
        eprintln!("daily: search, {name}");
        let mut times = Vec::new();
        for _ in 0..RUNS {
            for query in queries {
                times.push(time(|| search(archive, query))?);
            }
        }
        let times = Samples::new(times);
        report.goal(&format!("search, {name}"), &times.median("ms"), GOAL);
        let p99 = Figure::one(times.quantile(0.99), "ms");
        report.goal(&format!("search, {name}: p99 of {}", times.len()), &p99, GOAL);
    }
    Ok(())
}

fn kinds() -> Vec<Kind> {
    let kind = |name, query: &dyn Fn(usize) -> Vec<String>| Kind {
        name,
        queries: (0..RARE_WORDS).map(query).collect(),
    };
    let common = |number: usize| COMMON[number].to_string();
    let words = |words: [&str; 3]| words.map(str::to_string).to_vec();
    vec![
        kind("a rare word", &|number| vec![rare_word(number)]),
        kind("a common word", &|number| vec![common(number)]),
        kind("two common words in a row", &|number| {
            vec![format!("{} {}", common(number), COMMON[number + 1])]
        }),
        kind("a common word, `--since 7d`", &|number| words(["--since", "7d", COMMON[number]])),
        kind("a common word, `--in prompts`", &|number| words(["--in", "prompts", COMMON[number]])),
        kind("a regular expression of which 1 turn in 500 has a match", &|number| {
            vec![format!("/E0[0-9]{number}[0-9]/")]
        }),
        kind("a regular expression with one match", &|number| vec![format!("/quok+a{number}$/")]),
    ]
}

/// Searches; an error if nothing is found.
fn search(archive: &Archive, query: &[String]) -> Result<()> {
    let arguments: Vec<&str> = ["search"].into_iter().chain(query.iter().map(String::as_str)).collect();
    let output = nerve(&archive.home, &arguments).stdout(std::process::Stdio::piped()).output()?;
    let message = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => ensure!(message.is_empty(), "{message}"),
        _ => bail!("nerve {arguments:?} finds nothing: {message}"),
    }
    Ok(())
}
