//! The program to pack: where its ELF file runs, and how to build it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::project::{self, PACKAGE_FEATURES, Project, cargo_program};

/// Facts from an ELF file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Platform {
    pub(crate) arch: Arch,
    /// Minor version of the newest glibc 2 that the program needs. `None`: linked statically.
    pub(crate) glibc: Option<u32>,
    /// True if it needs GCC's unwinder as a shared library.
    pub(crate) needs_libgcc: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arch {
    X86_64,
    Aarch64,
}

/// Shared libraries of glibc.
const GLIBC: [&str; 8] =
    ["libc.so", "libm.so", "libpthread.so", "libdl.so", "librt.so", "libutil.so", "libresolv.so", "ld-linux"];

impl Platform {
    /// Reads the headers of a program with readelf.
    ///
    /// # Errors
    /// Fails for other machines, and for a program that needs a shared library other than those of glibc.
    pub(crate) fn of(program: &Path) -> anyhow::Result<Platform> {
        let mut readelf = Command::new("readelf");
        readelf.env("LC_ALL", "C").args(["--wide", "--file-header", "--dynamic", "--version-info"]);
        let text = project::output(readelf.arg(program))?;
        Platform::parse(&String::from_utf8_lossy(&text))
    }

    fn parse(readelf: &str) -> anyhow::Result<Platform> {
        let machine = readelf.lines().find_map(|line| line.trim().strip_prefix("Machine:"));
        let arch = match machine.map(str::trim) {
            Some("Advanced Micro Devices X86-64") => Arch::X86_64,
            Some("AArch64") => Arch::Aarch64,
            other => bail!("packages are for x86_64 and aarch64, but the program is for {other:?}"),
        };
        let needed: Vec<&str> = readelf.lines().filter_map(needed_library).collect();
        let needs_libgcc = needed.iter().any(|name| name.starts_with("libgcc_s.so"));
        let unknown = needed.iter().find(|name| {
            !name.starts_with("libgcc_s.so") && !GLIBC.iter().any(|known| name.starts_with(known))
        });
        if let Some(name) = unknown {
            bail!("the program needs the shared library {name}, which the packages do not declare");
        }
        let glibc = readelf.split("GLIBC_2.").skip(1).filter_map(leading_number).max();
        if glibc.is_none() && !needed.is_empty() {
            bail!("cannot find which glibc the program needs");
        }
        Ok(Platform { arch, glibc, needs_libgcc })
    }

    /// Returns the target triple.
    pub(crate) fn triple(&self) -> String {
        let libc = if self.glibc.is_some() { "gnu" } else { "musl" };
        format!("{}-unknown-linux-{libc}", self.arch.name())
    }
}

impl Arch {
    /// Returns the name in target triples and tags of wheels.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64",
            Arch::Aarch64 => "aarch64",
        }
    }

    /// Returns Debian's name.
    pub(crate) fn debian(self) -> &'static str {
        match self {
            Arch::X86_64 => "amd64",
            Arch::Aarch64 => "arm64",
        }
    }

    /// Returns the name of Node.js (`process.arch`).
    pub(crate) fn node(self) -> &'static str {
        match self {
            Arch::X86_64 => "x64",
            Arch::Aarch64 => "arm64",
        }
    }
}

/// Builds the program with the profile `dist`, for this machine unless a target is given, and returns its path.
///
/// The default is not musl, although its programs run everywhere: with musl's allocator an allocation takes six times as long.
pub(crate) fn build(project: &Project, target: Option<&str>) -> anyhow::Result<PathBuf> {
    let target = match target {
        Some(target) => target.to_string(),
        None => {
            let tuple = project::output(Command::new("rustc").args(["--print", "host-tuple"]))?;
            String::from_utf8(tuple)?.trim().to_string()
        }
    };
    println!("building for {target} with the profile dist");
    let mut cargo = project.command(cargo_program());
    cargo.args(["build", "--profile", "dist", "--locked", "--package", "nerve", "--bin", "nerve"]);
    cargo.args(PACKAGE_FEATURES).args(["--target", &target]);
    project::run(cargo.env("CARGO_ENCODED_RUSTFLAGS", rust_flags(project, &target)?))?;
    Ok(project.target.join(target).join("dist/nerve"))
}

/// Returns rustc's flags, separated as in `CARGO_ENCODED_RUSTFLAGS`.
fn rust_flags(project: &Project, target: &str) -> anyhow::Result<String> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo"))).context("HOME is not set")?;
    // Messages of panics contain paths of source files.
    let mut flags = vec![
        format!("--remap-path-prefix={}=/cargo", home.display()),
        format!("--remap-path-prefix={}=/nerve", project.root.display()),
    ];
    // Relocations are a thirteenth of the program, and almost nothing in this form. glibc reads it since 2.36 only.
    if target.ends_with("-musl") {
        flags.push("-Clink-arg=-Wl,-z,pack-relative-relocs".to_string());
    }
    Ok(flags.join("\u{1f}"))
}

/// ` 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]`
fn needed_library(line: &str) -> Option<&str> {
    let (_, name) = line.split_once("(NEEDED)")?.1.split_once('[')?;
    name.strip_suffix(']')
}

fn leading_number(text: &str) -> Option<u32> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DYNAMIC: &str = "  Machine:                           Advanced Micro Devices X86-64
 0x0000000000000001 (NEEDED)             Shared library: [libgcc_s.so.1]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
  0x0010:   Name: GLIBC_2.9  Flags: none  Version: 14
  0x0020:   Name: GLIBC_2.34  Flags: none  Version: 9
  0x0030:   Name: GLIBC_2.2.5  Flags: none  Version: 4
";

    #[test]
    fn finds_newest_glibc_by_number() {
        let platform = Platform::parse(DYNAMIC).unwrap();
        assert_eq!(platform, Platform { arch: Arch::X86_64, glibc: Some(34), needs_libgcc: true });
        assert_eq!(platform.triple(), "x86_64-unknown-linux-gnu");
    }

    #[test]
    fn program_without_libraries_is_static() {
        let platform = Platform::parse("  Machine:   AArch64\n").unwrap();
        assert_eq!(platform.triple(), "aarch64-unknown-linux-musl");
    }

    #[test]
    fn undeclared_library_is_an_error() {
        let text = DYNAMIC.replace("libgcc_s.so.1", "libsqlite3.so.0");
        assert!(Platform::parse(&text).unwrap_err().to_string().contains("libsqlite3.so.0"));
        assert!(Platform::parse("  Machine:   RISC-V\n").unwrap_err().to_string().contains("RISC-V"));
    }
}
