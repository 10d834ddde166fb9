//! Which modules of a crate use which, by their sources.
//!
//! A module uses another one if a path in it, within a `use` or not, leads to an item of that module. Paths are
//! followed through re-exports to the module that defines the item, and a re-export that others may see (`pub use`) is
//! no use itself: a module that shows the items of its children does not depend on them. Modules in the same file are
//! modules of their own. Code of tests does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, File, Item, ItemMod, ItemUse, UseTree, Visibility};

/// A path from the root of the crate.
type Names = Vec<String>;

/// A module.
#[derive(Default)]
struct Module {
    path: Names,
    children: BTreeMap<String, usize>,
    /// The names of its items.
    items: BTreeSet<String>,
    /// The paths of the names that it imports or re-exports.
    imports: BTreeMap<String, Names>,
    /// The modules of which it imports everything.
    globs: Vec<Names>,
    /// The paths in it, but for re-exports.
    mentioned: BTreeSet<Names>,
}

/// The modules of a crate.
pub struct Crate {
    modules: Vec<Module>,
}

impl Crate {
    /// Reads all files below the root of a crate, `src`.
    pub fn read(root: &Path) -> Result<Crate, String> {
        let mut of_crate = Crate { modules: Vec::new() };
        let file = if root.join("lib.rs").exists() { "lib.rs" } else { "main.rs" };
        let parsed = parse(&root.join(file))?;
        of_crate.add(Names::new(), root, &parsed.items)?;
        Ok(of_crate)
    }

    /// A module's name: `interp::frame`.
    pub fn name(&self, module: usize) -> String {
        match self.modules[module].path.as_slice() {
            [] => "(root)".to_string(),
            path => path.join("::"),
        }
    }

    /// The modules that each module uses.
    pub fn uses(&self) -> Vec<BTreeSet<usize>> {
        let of = |(index, module): (usize, &Module)| {
            let targets = module.mentioned.iter().filter_map(|path| self.resolve(0, path, 16));
            targets.filter(|target| *target != index).collect()
        };
        self.modules.iter().enumerate().map(of).collect()
    }

    /// Adds a module with these items, whose files are in `folder`.
    fn add(&mut self, path: Names, folder: &Path, items: &[Item]) -> Result<usize, String> {
        let index = self.modules.len();
        self.modules.push(Module { path: path.clone(), ..Module::default() });
        for item in items.iter().filter(|item| !attributes(item).iter().any(is_for_tests)) {
            if let Item::Mod(ItemMod { ident, content, .. }) = item {
                let name = ident.to_string();
                let inside = folder.join(&name);
                let child: Names = path.iter().cloned().chain([name.clone()]).collect();
                let child = match content {
                    Some((_, items)) => self.add(child, &inside, items)?,
                    None => {
                        let file =
                            [inside.with_extension("rs"), inside.join("mod.rs")].into_iter().find(|file| file.exists());
                        // A file that a build script or a `path` names.
                        let Some(file) = file else { continue };
                        self.add(child, &inside, &parse(&file)?.items)?
                    }
                };
                self.modules[index].children.insert(name, child);
                continue;
            }
            let module = &mut self.modules[index];
            module.items.extend(name_of(item));
            match item {
                Item::Use(item) => module.import(item),
                item => paths(item.to_token_stream(), &mut module.mentioned),
            }
        }
        // Paths are relative until all children are known.
        let children: BTreeSet<String> = self.modules[index].children.keys().cloned().collect();
        let module = &mut self.modules[index];
        let absolute = |relative: &Names| absolute(&path, relative, &children);
        module.mentioned = module.mentioned.iter().filter_map(absolute).collect();
        module.globs = module.globs.iter().filter_map(absolute).collect();
        module.imports = module.imports.iter().filter_map(|(name, of)| Some((name.clone(), absolute(of)?))).collect();
        Ok(index)
    }

    /// The module that defines what a path from `module` leads to.
    fn resolve(&self, module: usize, path: &[String], steps: u32) -> Option<usize> {
        let here = &self.modules[module];
        let Some((first, rest)) = path.split_first() else { return Some(module) };
        let steps = steps.checked_sub(1)?;
        if let Some(child) = here.children.get(first) {
            return self.resolve(*child, rest, steps);
        }
        if here.items.contains(first) {
            return Some(module);
        }
        let imported = here.imports.get(first).and_then(|of| self.resolve(0, of, steps));
        imported.or_else(|| {
            let mut globs = here.globs.iter().filter_map(|of| self.resolve(0, of, steps));
            globs.find_map(|of| self.resolve(of, path, steps).filter(|_| of != module))
        })
    }
}

impl Module {
    fn import(&mut self, item: &ItemUse) {
        let mut leaves = Vec::new();
        flatten(&item.tree, &mut Names::new(), &mut leaves);
        for (name, path) in leaves {
            if matches!(item.vis, Visibility::Inherited) {
                self.mentioned.insert(path.clone());
            }
            match name {
                Some(name) => drop(self.imports.insert(name, path)),
                None => self.globs.push(path),
            }
        }
    }
}

/// The paths of a tree of imports, each with the name that it gets; none for all names.
fn flatten(tree: &UseTree, path: &mut Names, leaves: &mut Vec<(Option<String>, Names)>) {
    let with = |path: &Names, last: String| -> Names {
        // `self` in braces is the module itself.
        path.iter().cloned().chain((last != "self" || path.is_empty()).then_some(last)).collect()
    };
    match tree {
        UseTree::Path(of) => {
            path.push(of.ident.to_string());
            flatten(&of.tree, path, leaves);
            path.pop();
        }
        UseTree::Name(of) => {
            let path = with(path, of.ident.to_string());
            leaves.push((path.last().cloned(), path));
        }
        UseTree::Rename(of) => leaves.push((Some(of.rename.to_string()), with(path, of.ident.to_string()))),
        UseTree::Glob(_) => leaves.push((None, path.clone())),
        UseTree::Group(of) => of.items.iter().for_each(|tree| flatten(tree, path, leaves)),
    }
}

/// Adds the paths of at least two names that are among these tokens.
fn paths(tokens: TokenStream, found: &mut BTreeSet<Names>) {
    let mut path = Names::new();
    let mut colons = 0;
    let mut end = |path: &mut Names| {
        let path = std::mem::take(path);
        if path.len() > 1 {
            found.insert(path);
        }
    };
    let mut groups = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Ident(name) => {
                if colons != 2 {
                    end(&mut path);
                }
                path.push(name.to_string());
                colons = 0;
            }
            TokenTree::Punct(of) if of.as_char() == ':' => colons += 1,
            other => {
                end(&mut path);
                colons = 0;
                if let TokenTree::Group(group) = other {
                    groups.push(group.stream());
                }
            }
        }
    }
    end(&mut path);
    groups.into_iter().for_each(|group| paths(group, found));
}

/// A path from the root of the crate, unless it begins with the name of something else.
fn absolute(module: &Names, path: &Names, children: &BTreeSet<String>) -> Option<Names> {
    let mut at = module.clone();
    let mut rest = path.as_slice();
    match rest.split_first()?.0.as_str() {
        "crate" => {
            at.clear();
            rest = &rest[1..];
        }
        "self" => rest = &rest[1..],
        "super" => {
            while rest.first().is_some_and(|first| first == "super") {
                at.pop()?;
                rest = &rest[1..];
            }
        }
        first if children.contains(first) => {}
        _ => return None,
    }
    at.extend_from_slice(rest);
    Some(at)
}

fn parse(file: &Path) -> Result<File, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    syn::parse_file(&text).map_err(|error| format!("{}: {error}", file.display()))
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Const(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether an item is compiled for tests alone.
fn is_for_tests(attribute: &Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else { return false };
    list.path.is_ident("cfg")
        && list.tokens.to_string().split(|letter: char| !letter.is_alphanumeric()).any(|word| word == "test")
}

/// The name of an item that has one.
fn name_of(item: &Item) -> Option<String> {
    Some(
        match item {
            Item::Const(item) => &item.ident,
            Item::Enum(item) => &item.ident,
            Item::Fn(item) => &item.sig.ident,
            Item::Macro(item) => item.ident.as_ref()?,
            Item::Static(item) => &item.ident,
            Item::Struct(item) => &item.ident,
            Item::Trait(item) => &item.ident,
            Item::TraitAlias(item) => &item.ident,
            Item::Type(item) => &item.ident,
            Item::Union(item) => &item.ident,
            _ => return None,
        }
        .to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::super::graph::circles;
    use super::*;

    /// The circles of a crate of these files.
    fn of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let folder = std::env::temp_dir().join(format!("vireo-circles-{}-{}", std::process::id(), files.len()));
        for (name, text) in files {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let of_crate = Crate::read(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let circles = circles(&of_crate.uses()).into_iter();
        circles.map(|circle| circle.into_iter().map(|module| of_crate.name(module)).collect()).collect()
    }

    #[test]
    fn paths_are_followed_through_re_exports() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use b::B; pub struct Root;"),
            ("a/mod.rs", "mod x; mod y; pub use self::x::X; pub(crate) use y::*;"),
            // Through the root to `b`, and by a path in the middle of code.
            ("a/x.rs", "use crate::B; pub struct X(B);"),
            ("a/y.rs", "pub fn y() -> usize { size_of::<super::X>() }"),
            ("b.rs", "#[cfg(test)] mod tests { use crate::a::X; } pub struct B; fn f() { crate::a::y(); }"),
        ];
        assert_eq!(of(&files), [["a::x", "a::y", "b"]]);
    }

    #[test]
    fn a_module_that_shows_its_children_is_in_no_circle_with_them() {
        let files = [
            ("lib.rs", "mod a { mod x { use super::Of; pub struct X(Of); } pub use self::x::X; pub struct Of; }"),
            ("b.rs", ""),
            ("c.rs", ""),
        ];
        assert_eq!(of(&files), Vec::<Vec<String>>::new());
        let files =
            [("lib.rs", "mod a { mod x { use super::Of; pub struct X(Of); } use self::x::X; pub struct Of(X); }")];
        assert_eq!(of(&files), [["a", "a::x"]]);
    }
}
