//! The bill of materials: the packages that the program is built from, as CycloneDX 1.5 JSON.
//!
//! It has no serial number and no time of its own, so that the same commit gives the same bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::release::Release;
use crate::project::{self, PACKAGE_FEATURES, cargo_program};

/// Crate of the program.
const ROOT: &str = "nerve";

/// A package of the program.
#[derive(Debug)]
pub(crate) struct Component {
    pub(crate) name: String,
    pub(crate) version: String,
    /// SPDX expression.
    pub(crate) license: Option<String>,
    /// Folder with its sources and licence files.
    pub(crate) folder: PathBuf,
    /// True for the crates of this workspace.
    pub(crate) is_own: bool,
    url: String,
    sha256: Option<String>,
    depends_on: Vec<String>,
}

/// The written file and its content.
pub(crate) struct Bill {
    pub(crate) file: PathBuf,
    /// By name and version.
    pub(crate) components: Vec<Component>,
}

/// Writes `nerve-VERSION-TARGET.cdx.json`.
pub(crate) fn write(release: &Release) -> anyhow::Result<Bill> {
    let components = components(release)?;
    let name = format!("nerve-{}-{}.cdx.json", release.version, release.platform.triple());
    let file = release.out.join(name);
    let mut text = serde_json::to_string_pretty(&document(release, &components))?;
    text.push('\n');
    fs::write(&file, text)?;
    Ok(Bill { file, components })
}

fn document(release: &Release, components: &[Component]) -> Value {
    let root = format!("pkg:cargo/{ROOT}@{}", release.version);
    let listed = components.iter().filter(|component| component.url != root).map(|component| {
        let mut entry = json!({
            "type": "library",
            "bom-ref": component.url,
            "name": component.name,
            "version": component.version,
            "purl": component.url,
        });
        if let Some(license) = &component.license {
            entry["licenses"] = json!([{ "expression": license }]);
        }
        if let Some(sha256) = &component.sha256 {
            entry["hashes"] = json!([{ "alg": "SHA-256", "content": sha256 }]);
        }
        entry
    });
    let edges =
        components.iter().map(|component| json!({ "ref": component.url, "dependsOn": component.depends_on }));
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": ROOT,
                "version": release.version,
                "purl": root,
                "licenses": [{ "expression": "MIT OR Apache-2.0" }],
            },
            "properties": [{ "name": "nerve:target", "value": release.platform.triple() }],
        },
        "components": listed.collect::<Vec<_>>(),
        "dependencies": edges.collect::<Vec<_>>(),
    })
}

/// Returns the crates of the program and the libraries of its web console.
fn components(release: &Release) -> anyhow::Result<Vec<Component>> {
    let triple = release.platform.triple();
    let mut cargo = release.project.command(cargo_program());
    cargo
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &triple])
        .args(PACKAGE_FEATURES);
    let metadata: Value = serde_json::from_slice(&project::output(&mut cargo)?)?;
    let lockfile = fs::read_to_string(release.project.root.join("Cargo.lock"))?;
    let mut components = crates(&metadata, &checksums(&lockfile))?;
    components.extend(web_libraries(&release.project.root.join("crates/nerve-server/web/vendor"))?);
    components.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(components)
}

/// Returns the root crate and what it depends on, without dependencies of tests and build scripts.
fn crates(
    metadata: &Value,
    checksums: &BTreeMap<(String, String), String>,
) -> anyhow::Result<Vec<Component>> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages: BTreeMap<String, Value> =
        list(&metadata["packages"]).into_iter().map(|package| (text(&package["id"]), package)).collect();
    let edges: BTreeMap<String, Vec<String>> = list(&metadata["resolve"]["nodes"])
        .iter()
        .map(|node| (text(&node["id"]), list(&node["deps"]).iter().filter_map(linked_dependency).collect()))
        .collect();
    let root = packages.iter().find(|(_, package)| package["name"] == ROOT).context("no crate nerve")?.0;
    let mut ids = BTreeSet::new();
    let mut pending = vec![root.clone()];
    while let Some(id) = pending.pop() {
        if ids.insert(id.clone()) {
            pending.extend(edges.get(&id).into_iter().flatten().cloned());
        }
    }
    ids.iter().map(|id| component(id, &packages, &edges, checksums)).collect()
}

fn component(
    id: &str,
    packages: &BTreeMap<String, Value>,
    edges: &BTreeMap<String, Vec<String>>,
    checksums: &BTreeMap<(String, String), String>,
) -> anyhow::Result<Component> {
    let package = packages.get(id).with_context(|| format!("cargo metadata has no package {id}"))?;
    let (name, version) = (text(&package["name"]), text(&package["version"]));
    let manifest = PathBuf::from(text(&package["manifest_path"]));
    let url_of = |id: &String| packages.get(id).map(package_url);
    let mut depends_on: Vec<String> = edges.get(id).into_iter().flatten().filter_map(url_of).collect();
    depends_on.sort();
    depends_on.dedup();
    Ok(Component {
        url: package_url(package),
        license: package["license"].as_str().map(spdx),
        folder: manifest.parent().map(Path::to_path_buf).unwrap_or_default(),
        is_own: package["source"].is_null(),
        sha256: checksums.get(&(name.clone(), version.clone())).cloned(),
        depends_on,
        name,
        version,
    })
}

/// Returns the id of a dependency that is linked into the program; `None` for those of tests and build scripts only.
fn linked_dependency(dependency: &Value) -> Option<String> {
    let kinds = dependency["dep_kinds"].as_array()?;
    kinds.iter().any(|kind| kind["kind"].is_null()).then(|| text(&dependency["pkg"]))
}

/// Returns the libraries that `vendor.json` lists, a component each.
fn web_libraries(folder: &Path) -> anyhow::Result<Vec<Component>> {
    let list: Vec<BTreeMap<String, String>> = serde_json::from_slice(&fs::read(folder.join("vendor.json"))?)?;
    let packages: BTreeSet<(String, String)> = list
        .into_iter()
        .filter_map(|mut entry| Some((entry.remove("package")?, entry.remove("version")?)))
        .collect();
    if packages.is_empty() {
        bail!("{}/vendor.json lists no package", folder.display());
    }
    let library = |(name, version): (String, String)| Component {
        url: format!("pkg:npm/{}@{version}", name.replace('@', "%40")),
        license: Some("MIT".to_string()),
        folder: folder.to_path_buf(),
        is_own: false,
        sha256: None,
        depends_on: Vec::new(),
        name,
        version,
    };
    Ok(packages.into_iter().map(library).collect())
}

/// Returns the checksums of `Cargo.lock` by name and version.
fn checksums(lockfile: &str) -> BTreeMap<(String, String), String> {
    let field = |block: &str, name: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""));
        line.map(|value| value.trim_end_matches('"').to_string())
    };
    let packages = lockfile.split("[[package]]").filter_map(|block| {
        Some(((field(block, "name")?, field(block, "version")?), field(block, "checksum")?))
    });
    packages.collect()
}

fn package_url(package: &Value) -> String {
    format!("pkg:cargo/{}@{}", text(&package["name"]), text(&package["version"]))
}

/// Older manifests separate alternatives with a slash.
fn spdx(license: &str) -> String {
    license.replace('/', " OR ").replace("  ", " ")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_only_linked_crates() {
        let package =
            |name: &str| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0" });
        let dependency = |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": [package("nerve"), package("used"), package("deep"), package("tested")],
            "resolve": { "nodes": [
                { "id": "nerve", "deps": [dependency("used", Value::Null), dependency("tested", "dev".into())] },
                { "id": "used", "deps": [dependency("deep", Value::Null)] },
            ] },
        });
        let lockfile = "[[package]]\nname = \"deep\"\nversion = \"1.0.0\"\nchecksum = \"ab\"\n";
        let crates = crates(&metadata, &checksums(lockfile)).unwrap();
        assert_eq!(
            crates.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(),
            ["deep", "nerve", "used"]
        );
        assert_eq!(crates[0].sha256.as_deref(), Some("ab"));
        assert_eq!(crates[0].license.as_deref(), Some("MIT OR Apache-2.0"));
        assert_eq!(crates[1].depends_on, ["pkg:cargo/used@1.0.0"]);
    }
}
