//! `cargo xtask semver`: compares what users see of the library `vireo` with `snapshots/api/`, so that a change of it
//! is seen in review.
//!
//! The library is a facade: it exports items of other crates, and rustdoc's JSON of a crate has the items of that crate
//! alone. So the names come from the JSON of `vireo`, and the signatures of each from that of the crate that defines
//! it, as `public-api` renders them. Items that are hidden from the documentation are no part of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use public_api::PublicApi;
use serde_json::Value;
use similar::TextDiff;

use crate::chore::{target, workspace};

/// The version of rustdoc's JSON that `public-api` reads: that of Rust 1.95.
const FORMAT: u64 = 57;

/// The features beside those by default that add names.
const FEATURES: &str = "bind,files,half,ndarray";

/// In the environment of this program, which cargo then runs in place of rustdoc: the rustdoc to run.
const RUSTDOC: &str = "VIREO_SEMVER_RUSTDOC";

/// Where the texts are.
const SNAPSHOTS: &str = "snapshots/api";

/// The package whose library is `vireo`.
const FACADE: &str = "vireo-runtime";

/// Runs rustdoc if this program is to be it, and returns how that ended.
///
/// The option for JSON is unstable, and the variable that allows it for everything would compile all dependencies
/// again.
pub fn as_rustdoc() -> Option<i32> {
    let rustdoc = env::var_os(RUSTDOC)?;
    let mut run = Command::new(rustdoc);
    run.args(env::args_os().skip(1)).env("RUSTC_BOOTSTRAP", "1").env_remove(RUSTDOC);
    match run.status() {
        Ok(status) => Some(status.code().unwrap_or(1)),
        Err(error) => {
            eprintln!("rustdoc: {error}");
            Some(1)
        }
    }
}

/// Compares the surface with its texts, or writes these.
pub fn semver(accept: bool) -> Result<(), String> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        println!("skipped: {SNAPSHOTS} is that of x86-64 and Linux, and some items are there for one machine alone");
        return Ok(());
    }
    let crates = crates()?;
    document(&crates)?;
    let facade = json("vireo")?;
    if facade["format_version"] != FORMAT {
        println!(
            "skipped: rustdoc of this compiler writes JSON of format {}, and `public-api` reads {FORMAT}, that of Rust 1.95",
            facade["format_version"]
        );
        return Ok(());
    }
    let mut surface =
        Surface { facade, crates: HashMap::new(), seen: BTreeMap::new(), texts: BTreeMap::new(), names: 0 };
    let root = surface.facade["root"].to_string();
    surface.module(&root, "vireo")?;
    let folder = workspace().join(SNAPSHOTS);
    if accept {
        // Texts of modules that are gone go, too.
        let removed = fs::remove_dir_all(&folder).or_else(|error| if folder.exists() { Err(error) } else { Ok(()) });
        removed.and_then(|()| fs::create_dir_all(&folder)).map_err(|error| failed(&folder, error))?;
    }
    let mut known: BTreeSet<OsString> = BTreeSet::new();
    if let Ok(entries) = fs::read_dir(&folder) {
        known.extend(entries.filter_map(|entry| Some(entry.ok()?.file_name())));
    }
    let mut differences = String::new();
    for (name, text) in &surface.texts {
        let path = folder.join(format!("{name}.txt"));
        known.remove(path.file_name().unwrap_or_default());
        if accept {
            fs::write(&path, text).map_err(|error| failed(&path, error))?;
            continue;
        }
        let old = fs::read_to_string(&path).unwrap_or_default();
        if old != *text {
            let header = path.strip_prefix(workspace()).unwrap_or(&path).display().to_string();
            let diff = TextDiff::from_lines(&old, text);
            differences += &diff.unified_diff().context_radius(1).header(&header, "now").to_string();
        }
    }
    for name in known {
        differences += &format!("{SNAPSHOTS}/{}: there is no such module\n", name.display());
    }
    if !differences.is_empty() {
        return Err(format!(
            "{differences}\nthe surface of the library has changed; if that is meant, `cargo xtask semver --accept` records it"
        ));
    }
    let items: usize =
        surface.texts.values().map(|text| text.lines().filter(|line| line.starts_with("    pub ")).count()).sum();
    println!("{} exports with {items} public items, fields and methods among them", surface.names);
    Ok(())
}

/// The crates that the facade is made of, and itself.
fn crates() -> Result<Vec<String>, String> {
    let mut cargo = Command::new(cargo());
    cargo.args(["metadata", "--no-deps", "--locked", "--format-version=1"]).current_dir(workspace());
    let output = cargo.output().map_err(|error| format!("cargo: {error}"))?;
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata has no packages")?;
    let named = |name: &str| packages.iter().find(|package| package["name"] == name);
    let facade = named(FACADE).ok_or_else(|| format!("there is no package `{FACADE}`"))?;
    let is_library = |name: &&str| {
        let kinds = named(name).map(|package| package["targets"][0]["kind"].to_string());
        kinds.is_some_and(|kinds| kinds.contains("\"lib\""))
    };
    let normal = facade["dependencies"].as_array().into_iter().flatten().filter(|one| one["kind"].is_null());
    let names = normal.filter_map(|dependency| dependency["name"].as_str()).filter(is_library);
    Ok(names.chain([FACADE]).map(str::to_string).collect())
}

/// Makes rustdoc write the JSON of crates. The dependencies are compiled as by the other commands.
fn document(crates: &[String]) -> Result<(), String> {
    let this = env::current_exe().map_err(|error| format!("this program: {error}"))?;
    let rustdoc = env::var_os("RUSTDOC").unwrap_or_else(|| "rustdoc".into());
    let mut run = Command::new(cargo());
    run.args(["doc", "--quiet", "--no-deps", "--locked", "--features", FEATURES, "-p", "workspace-hack"]);
    for name in crates {
        run.args(["-p", name]);
    }
    run.env("RUSTDOC", this).env(RUSTDOC, rustdoc).env("RUSTDOCFLAGS", "-Zunstable-options --output-format=json");
    let status = run.current_dir(workspace()).status().map_err(|error| format!("cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err("cargo doc failed".into()) }
}

fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn failed(path: &Path, error: std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// The JSON of a crate.
fn json_path(name: &str) -> PathBuf {
    target().join("doc").join(format!("{name}.json"))
}

fn json(name: &str) -> Result<Value, String> {
    let path = json_path(name);
    let bytes = fs::read(&path).map_err(|error| failed(&path, error))?;
    serde_json::from_slice(&bytes).map_err(|error| format!("{}: {error}", path.display()))
}

/// A crate whose items the facade exports.
struct Defining {
    json: Value,
    /// The items by the path of their definition, which is that of the facade's JSON, and kind.
    by_path: HashMap<(String, String), u32>,
    lines: Vec<Line>,
    parents: HashMap<u32, u32>,
}

/// An item as `public-api` renders it.
struct Line {
    id: u32,
    text: String,
}

struct Surface {
    /// The JSON of the facade.
    facade: Value,
    crates: HashMap<String, Defining>,
    /// Where each item was written first, by crate and number.
    seen: BTreeMap<(String, u32), String>,
    /// The text of each module of the facade, by its name.
    texts: BTreeMap<String, String>,
    /// How many names the facade has.
    names: usize,
}

impl Surface {
    /// Writes the items of a module of the facade, which is called `path`.
    fn module(&mut self, id: &str, path: &str) -> Result<(), String> {
        let items: Vec<String> = self.facade["index"][id]["inner"]["module"]["items"]
            .as_array()
            .map(|items| items.iter().map(Value::to_string).collect())
            .ok_or_else(|| format!("{path} is not a module"))?;
        let mut uses = Vec::new();
        let mut modules = Vec::new();
        for id in items {
            let item = &self.facade["index"][&id];
            let inner = &item["inner"];
            let name = item["name"].as_str().unwrap_or_default();
            if inner["use"].is_object() {
                let used = &inner["use"];
                let name = used["name"].as_str().unwrap_or_default().to_string();
                uses.push((name, used["id"].to_string(), used["is_glob"] == true));
            } else if inner["module"].is_object() {
                modules.push((name.to_string(), id));
            } else if !item.is_null() {
                return Err(format!(
                    "{path}::{name} is defined in the facade, which only exports what other crates define"
                ));
            }
        }
        uses.sort();
        modules.sort();
        for (name, id, is_glob) in uses {
            let source = &self.facade["paths"][&id];
            let definition = source["path"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let definition: Vec<&str> = definition.collect();
            let (definition, kind) = (definition.join("::"), source["kind"].as_str().unwrap_or_default().to_string());
            if is_glob {
                self.glob(path, &definition)?;
            } else {
                self.export(path, &name, &definition, &kind)?;
            }
        }
        for (name, id) in modules {
            self.module(&id, &format!("{path}::{name}"))?;
        }
        Ok(())
    }

    /// Writes all items of a module of another crate.
    fn glob(&mut self, path: &str, definition: &str) -> Result<(), String> {
        let defining = self.defining(definition)?;
        let module = defining.by_path.get(&(definition.to_string(), "module".to_string()));
        let module = module.ok_or_else(|| format!("{definition} is not documented"))?.to_string();
        let items = defining.json["index"][&module]["inner"]["module"]["items"].as_array().cloned().unwrap_or_default();
        let mut exported = Vec::new();
        for id in items.iter().map(Value::to_string) {
            let item = &defining.json["index"][&id];
            // A module exports what it imports from others of its crate.
            let (name, id) = match item["inner"]["use"].as_object() {
                Some(used) => (&used["name"], used["id"].to_string()),
                None => (&item["name"], id),
            };
            let source = &defining.json["paths"][&id];
            let Some(name) = name.as_str().filter(|_| source.is_object()) else { continue };
            let parts = source["path"].as_array().into_iter().flatten().filter_map(Value::as_str);
            exported.push((
                name.to_string(),
                parts.collect::<Vec<_>>().join("::"),
                source["kind"].as_str().unwrap_or_default().to_string(),
            ));
        }
        exported.sort();
        exported.into_iter().try_for_each(|(name, definition, kind)| self.export(path, &name, &definition, &kind))
    }

    /// Writes one item, with what belongs to it.
    fn export(&mut self, path: &str, name: &str, definition: &str, kind: &str) -> Result<(), String> {
        self.names += 1;
        let public = format!("{path}::{name}");
        let group = path.split("::").nth(1).unwrap_or("vireo").to_string();
        let crate_name = definition.split("::").next().unwrap_or_default().to_string();
        // Procedural macros and what is not of the workspace have no signatures here.
        if kind.starts_with("proc_") || !json_path(&crate_name).exists() {
            *self.texts.entry(group).or_default() += &format!("{public}: {kind} of {crate_name}\n");
            return Ok(());
        }
        let defining = self.defining(definition)?;
        let id = defining.by_path.get(&(definition.to_string(), kind.to_string()));
        let id = *id.ok_or_else(|| format!("{definition}, {kind}, is not documented"))?;
        let lines: Vec<String> = defining.of(id).into_iter().map(str::to_string).collect();
        let text = self.texts.entry(group).or_default();
        match self.seen.get(&(crate_name.clone(), id)) {
            Some(first) => *text += &format!("{public} = {first}\n"),
            None => {
                *text += &format!("{public}\n");
                lines.iter().for_each(|line| *text += &format!("    {line}\n"));
                self.seen.insert((crate_name, id), public);
            }
        }
        Ok(())
    }

    /// The crate of a definition.
    fn defining(&mut self, definition: &str) -> Result<&Defining, String> {
        let name = definition.split("::").next().unwrap_or_default();
        if !self.crates.contains_key(name) {
            self.crates.insert(name.to_string(), Defining::read(name)?);
        }
        self.crates.get(name).ok_or_else(|| format!("{name} is not documented"))
    }
}

impl Defining {
    fn read(name: &str) -> Result<Defining, String> {
        let json = json(name)?;
        let mut by_path = HashMap::new();
        for (id, summary) in json["paths"].as_object().into_iter().flatten().filter(|(_, one)| one["crate_id"] == 0) {
            let path = summary["path"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let path = path.collect::<Vec<_>>().join("::");
            let kind = summary["kind"].as_str().unwrap_or_default().to_string();
            let id = id.parse().map_err(|_| format!("{name}: the item {id} has no number"))?;
            by_path.insert((path, kind), id);
        }
        let mut builder = public_api::Builder::from_rustdoc_json(json_path(name)).sorted(true);
        builder = builder.omit_blanket_impls(true).omit_auto_trait_impls(true).omit_auto_derived_impls(true);
        let api: PublicApi = builder.build().map_err(|error| format!("{name}: {error}"))?;
        let parents = api.items().filter_map(|item| Some((item.id().0, item.parent_id()?.0))).collect();
        let lines = api.items().map(|item| Line { id: item.id().0, text: item.to_string() }).collect();
        Ok(Defining { json, by_path, lines, parents })
    }

    /// The lines of an item and of what is in it. Each is there once for each way to name the item; one of them will
    /// do.
    fn of(&self, id: u32) -> Vec<&str> {
        let belongs = |line: &&Line| {
            let mut at = line.id;
            // Parents form a tree; the bound is for one that does not.
            for _ in 0..64 {
                if at == id {
                    return true;
                }
                let Some(parent) = self.parents.get(&at) else { return false };
                at = *parent;
            }
            false
        };
        let mut ids = BTreeMap::new();
        for line in self.lines.iter().filter(belongs) {
            let shortest = ids.entry(line.id).or_insert(line);
            if line.text.len() < shortest.text.len() {
                *shortest = line;
            }
        }
        // In the order of the lines, which groups what belongs together.
        let chosen: BTreeSet<*const Line> = ids.values().map(|line| std::ptr::from_ref(*line)).collect();
        self.lines
            .iter()
            .filter(|line| chosen.contains(&std::ptr::from_ref(*line)))
            .map(|line| line.text.as_str())
            .collect()
    }
}
