//! `cargo xtask dist`: builds the packages through which people install nerve.
//!
//! The same commit and toolchain give the same bytes: file times are `SOURCE_DATE_EPOCH`, by default the time of the commit.

mod binary;
mod deb;
mod npm;
mod options;
mod recipes;
mod release;
mod sbom;
mod tarball;
mod third_party;
mod tools;
mod tree;
mod wheel;

use std::fs;
use std::path::PathBuf;

use anyhow::Context;

pub(crate) use self::options::Options;
pub(crate) use self::tools::missing as missing_tools;
use crate::project::Project;
use crate::sha256;
use release::Release;

/// Files that `cargo xtask dist` has written.
pub(crate) struct Packages {
    pub(crate) tarball: PathBuf,
    pub(crate) pure_wheel: PathBuf,
    pub(crate) platform_wheel: PathBuf,
    /// The launcher and the package of the platform.
    pub(crate) npm: [PathBuf; 2],
    pub(crate) deb: PathBuf,
    /// Homebrew formula, SBOM, checksums.
    others: Vec<PathBuf>,
}

/// Runs `cargo xtask dist`.
pub(crate) fn run(project: &Project, args: &[String]) -> anyhow::Result<bool> {
    let packages = build(project, &Options::parse(args)?)?;
    for file in packages.files() {
        let size = file.metadata()?.len();
        println!("{:>9.2} MB  {}", size as f64 / 1e6, file.display());
    }
    Ok(true)
}

/// Builds all packages.
///
/// # Errors
/// Names the tool that is missing or has failed.
pub(crate) fn build(project: &Project, options: &Options) -> anyhow::Result<Packages> {
    let release = Release::prepare(project, options)?;
    let bill = sbom::write(&release)?;
    let notices = third_party::write(&release, &bill)?;
    let tree = tree::create(&release, &bill.file, &notices)?;
    let tarball = tarball::pack(&release, &tree)?;
    let formula = recipes::homebrew(&release, &tarball)?;
    let wheels = wheel::build(&release, &tree)?;
    let mut packages = Packages {
        npm: npm::pack(&release, &tree)?,
        deb: deb::pack(&release, &tree)?,
        tarball,
        pure_wheel: wheels.pure,
        platform_wheel: wheels.platform,
        others: vec![formula, bill.file],
    };
    fs::remove_dir_all(&release.stage)?;
    packages.others.push(write_checksums(&release, &packages)?);
    Ok(packages)
}

impl Packages {
    fn files(&self) -> Vec<&PathBuf> {
        let [launcher, platform] = &self.npm;
        let packages = [&self.tarball, &self.pure_wheel, &self.platform_wheel, launcher, platform, &self.deb];
        packages.into_iter().chain(&self.others).collect()
    }
}

/// Writes `SHA256SUMS`, in the format of `sha256sum --check`.
fn write_checksums(release: &Release, packages: &Packages) -> anyhow::Result<PathBuf> {
    let mut lines = Vec::new();
    for file in packages.files() {
        let name = file.file_name().context("a package has no name")?.to_string_lossy();
        lines.push(format!("{}  {name}\n", sha256::hex(&fs::read(file)?)));
    }
    let sums = release.out.join("SHA256SUMS");
    fs::write(&sums, lines.concat())?;
    Ok(sums)
}
