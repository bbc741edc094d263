//! `cargo xtask soak`: runs the test `soak` of the crate `nerve` for longer than CI does.

use std::time::Duration;

use anyhow::{Context, bail};

use crate::project::{self, FEATURES, Project, cargo_program};

/// Options of `cargo xtask soak`.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    time: Duration,
    /// Repeats the choices of an earlier run.
    seed: Option<u64>,
}

impl Options {
    fn parse(args: &[String]) -> anyhow::Result<Options> {
        let mut options = Options { time: Duration::from_secs(3600), seed: None };
        for pair in args.chunks(2) {
            let value: Option<u64> = pair.get(1).and_then(|number| number.parse().ok());
            let value = value.with_context(|| format!("{} needs a number", pair[0]))?;
            match pair[0].as_str() {
                "--hours" => options.time = Duration::from_secs(value.saturating_mul(3600)),
                "--minutes" => options.time = Duration::from_secs(value.saturating_mul(60)),
                "--seed" => options.seed = Some(value),
                other => {
                    bail!("unknown option '{other}' of soak; there are --hours N, --minutes N and --seed N")
                }
            }
        }
        Ok(options)
    }
}

/// Builds the test and runs it.
pub(crate) fn run(project: &Project, args: &[String]) -> anyhow::Result<bool> {
    let options = Options::parse(args)?;
    let mut command = project.command(cargo_program());
    command.args(["test", "--locked", "--package", "nerve", "--test", "soak"]).args(FEATURES);
    command.args(["--", "--nocapture"]).env("NERVE_SOAK_SECONDS", options.time.as_secs().to_string());
    if let Some(seed) = options.seed {
        command.env("NERVE_SOAK_SEED", seed.to_string());
    }
    project::run(&mut command)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> anyhow::Result<Options> {
        Options::parse(&args.iter().map(|arg| (*arg).to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn parses_time_and_seed() {
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        assert_eq!(parse(&[]).unwrap(), Options { time: minutes(60), seed: None });
        assert_eq!(parse(&["--hours", "2"]).unwrap().time, minutes(120));
        let options = parse(&["--minutes", "3", "--seed", "7"]).unwrap();
        assert_eq!(options, Options { time: minutes(3), seed: Some(7) });
        assert!(parse(&["--hours"]).unwrap_err().to_string().contains("--hours"));
        assert!(parse(&["--days", "1"]).unwrap_err().to_string().contains("--days"));
    }
}
