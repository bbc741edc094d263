//! Options of `cargo xtask dist`.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, bail};

/// Base of download links until the project has one; RFC 2606 reserves `.invalid`.
const NO_URL: &str = "https://nerve.invalid";
/// npm scope until the project has one. Packages with it are private, so that npm refuses to publish them.
pub(crate) const NO_SCOPE: &str = "@nerve.invalid";

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// A built program to pack. `None`: build one.
    pub(crate) binary: Option<PathBuf>,
    /// Target triple to build for. `None`: that of this machine.
    pub(crate) target: Option<String>,
    /// Folder for the packages. `None`: `target/packages`.
    pub(crate) out: Option<PathBuf>,
    /// Folder of the tarball on the web.
    pub(crate) base_url: String,
    /// Scope of the npm packages, with `@`.
    pub(crate) npm_scope: String,
    /// Compresses little, which is fast.
    pub(crate) fast: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            binary: None,
            target: None,
            out: None,
            base_url: NO_URL.to_string(),
            npm_scope: NO_SCOPE.to_string(),
            fast: false,
        }
    }
}

impl Options {
    /// Parses the options of the command.
    pub(crate) fn parse(args: &[String]) -> anyhow::Result<Options> {
        let mut options = Options::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().cloned().with_context(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--binary" => {
                    let file = value()?;
                    options.binary =
                        Some(fs::canonicalize(&file).with_context(|| format!("no file {file}"))?);
                }
                "--target" => options.target = Some(value()?),
                "--out" => options.out = Some(std::path::absolute(value()?)?),
                "--base-url" => options.base_url = value()?.trim_end_matches('/').to_string(),
                "--npm-scope" => options.npm_scope = checked_scope(value()?)?,
                "--fast" => options.fast = true,
                other => bail!("unknown option '{other}' of dist; see `cargo xtask help`"),
            }
        }
        if options.binary.is_some() && options.target.is_some() {
            bail!("--target is for a build, but --binary packs a built program");
        }
        Ok(options)
    }
}

fn checked_scope(scope: String) -> anyhow::Result<String> {
    let name = scope.strip_prefix('@').unwrap_or_default();
    if name.is_empty() || name.contains(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit() && c != '-')
    {
        bail!("'{scope}' is no npm scope: @ and then a-z, 0-9, -");
    }
    Ok(scope)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> anyhow::Result<Options> {
        Options::parse(&args.iter().map(|arg| (*arg).to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn parses_options() {
        assert_eq!(parse(&[]).unwrap(), Options::default());
        let options =
            parse(&["--npm-scope", "@ours", "--base-url", "https://ours.test/v1/", "--fast"]).unwrap();
        assert_eq!((options.npm_scope.as_str(), options.fast), ("@ours", true));
        assert_eq!(options.base_url, "https://ours.test/v1");
    }

    #[test]
    fn error_names_bad_option() {
        let cases: [(&[&str], &str); 5] = [
            (&["--quick"], "--quick"),
            (&["--out"], "needs a value"),
            (&["--npm-scope", "ours"], "no npm scope"),
            (&["--binary", "/nonexistent"], "no file /nonexistent"),
            (&["--binary", "/bin/sh", "--target", "x"], "--target is for a build"),
        ];
        for (args, expected) in cases {
            let error = parse(args).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
