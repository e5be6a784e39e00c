//! Finds cycles in the import graph of the files of each crate.
//!
//! File A uses file B if A names an item that B defines. An item named through a re-export counts
//! as an item of the file that defines it. A `pub use` alone does not count as a use. Therefore, a
//! parent module may re-export the items of its children while the children use its items. A cycle
//! is reported only if the parent's code also uses the items of its children.

use std::collections::{BTreeMap, HashMap};

use proc_macro2::{Spacing, Span, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, Macro, Meta, UseTree, Visibility};

use super::{Rule, Source, Violation};

pub(crate) fn check(sources: &[Source], violations: &mut Vec<Violation>) {
    let files: HashMap<&str, &Source> =
        sources.iter().map(|source| (source.path.as_str(), source)).collect();
    for source in sources {
        if source.path.ends_with("src/lib.rs") || source.path.ends_with("src/main.rs") {
            let tree = Tree::of(source, &files);
            report_cycles(&tree.uses(), violations);
        }
    }
}

/// The modules of a crate; the first one is the root.
struct Tree<'a> {
    modules: Vec<Module<'a>>,
}

struct Module<'a> {
    parent: Option<usize>,
    source: &'a Source,
    /// The items of the file, or of an inline module.
    items: &'a [Item],
    names: HashMap<String, Bindings>,
    /// The paths of glob imports.
    globs: Vec<Vec<String>>,
}

/// The meanings of a name in a module. A module and a function may have the same name.
#[derive(Default)]
struct Bindings {
    module: Option<usize>,
    item: Option<ItemSource>,
}

enum ItemSource {
    Here,
    Imported(Vec<String>),
}

/// The module or item that a path resolves to.
#[derive(Clone, Copy)]
enum Target {
    Module(usize),
    /// An item of this module.
    Item(usize),
}

/// The uses of one file by another: the line and the item of each use.
type Uses<'a> = BTreeMap<(&'a str, &'a str), Vec<(usize, String)>>;

impl<'a> Tree<'a> {
    fn of(root: &'a Source, files: &HashMap<&str, &'a Source>) -> Self {
        let mut tree = Self { modules: Vec::new() };
        let folder = root.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        tree.add(None, Contents { source: root, items: &root.tree.items, folder }, files);
        tree
    }

    fn add(
        &mut self,
        parent: Option<usize>,
        contents: Contents<'a, '_>,
        files: &HashMap<&str, &'a Source>,
    ) -> usize {
        let Contents { source, items, folder } = contents;
        let current = self.modules.len();
        self.modules.push(Module {
            parent,
            source,
            items,
            names: HashMap::new(),
            globs: Vec::new(),
        });
        for item in items {
            if is_for_tests(attributes(item)) {
                continue;
            }
            match item {
                Item::Mod(module) => {
                    let name = module.ident.to_string();
                    let inner = format!("{folder}/{name}");
                    let child = if let Some((_, items)) = &module.content {
                        let contents = Contents { source, items, folder: &inner };
                        Some(self.add(Some(current), contents, files))
                    } else {
                        let explicit_path = path_attribute(&module.attrs).map(|path| {
                            let parent = source.path.rsplit_once('/').map_or("", |(at, _)| at);
                            format!("{parent}/{path}")
                        });
                        let paths = [format!("{inner}.rs"), format!("{inner}/mod.rs")];
                        let file =
                            explicit_path.iter().chain(&paths).find_map(|path| files.get(&**path));
                        file.map(|file| {
                            let items = &file.tree.items;
                            let contents = Contents { source: file, items, folder: &inner };
                            self.add(Some(current), contents, files)
                        })
                    };
                    self.modules[current].names.entry(name).or_default().module = child;
                }
                Item::Use(import) => {
                    let module = &mut self.modules[current];
                    for leaf in leaves(import) {
                        match leaf.name {
                            Some(name) => {
                                let bindings = module.names.entry(name).or_default();
                                bindings.item = Some(ItemSource::Imported(leaf.path));
                            }
                            None if leaf.is_glob => module.globs.push(leaf.path),
                            None => {}
                        }
                    }
                }
                _ => {
                    if let Some(name) = name_of(item) {
                        let names = &mut self.modules[current].names;
                        names.entry(name).or_default().item = Some(ItemSource::Here);
                    }
                }
            }
        }
        current
    }

    /// Resolves a path as seen from the module `from`, and follows re-exports.
    fn resolve(&self, from: usize, path: &[String], depth: usize) -> Option<Target> {
        // Imports may be circular.
        if depth > 20 {
            return None;
        }
        let mut target = Target::Module(from);
        for (at, name) in path.iter().enumerate() {
            let Target::Module(module) = target else { break };
            target = match name.as_str() {
                "crate" => Target::Module(0),
                "self" => target,
                "super" => Target::Module(self.modules[module].parent?),
                name => {
                    self.look_up(module, name, Lookup { is_last: at + 1 == path.len(), depth })?
                }
            };
        }
        Some(target)
    }

    fn look_up(&self, module: usize, name: &str, lookup: Lookup) -> Option<Target> {
        if let Some(bindings) = self.modules[module].names.get(name) {
            let child = bindings.module.map(Target::Module);
            let item = || match bindings.item.as_ref()? {
                ItemSource::Here => Some(Target::Item(module)),
                // `use name;` imports an external crate.
                ItemSource::Imported(path) if path[0] == name && path.len() == 1 => None,
                ItemSource::Imported(path) => self.resolve(module, path, lookup.depth + 1),
            };
            return if lookup.is_last { item().or(child) } else { child.or_else(item) };
        }
        self.modules[module].globs.iter().find_map(|glob| {
            let Some(Target::Module(other)) = self.resolve(module, glob, lookup.depth + 1) else {
                return None;
            };
            let lookup = Lookup { depth: lookup.depth + 1, ..lookup };
            if other == module || lookup.depth > 20 {
                None
            } else {
                self.look_up(other, name, lookup)
            }
        })
    }

    fn uses(&self) -> Uses<'a> {
        let mut uses = Uses::new();
        for (at, module) in self.modules.iter().enumerate() {
            let mut collector = UseCollector { tree: self, module: at, uses: &mut uses };
            module.items.iter().for_each(|item| collector.visit_item(item));
        }
        uses
    }
}

/// Reports each use between two files that depend on each other, directly or indirectly.
fn report_cycles(uses: &Uses<'_>, violations: &mut Vec<Violation>) {
    let mut reached: HashMap<&str, Vec<&str>> = HashMap::new();
    for (start, _) in uses.keys() {
        reached.entry(start).or_insert_with(|| reachable(start, uses));
    }
    for ((from, to), named) in uses {
        if reached.get(to).is_some_and(|back| back.contains(from)) {
            let in_cycle = |file: &&&str| {
                reached[*from].contains(*file)
                    && reached.get(**file).is_some_and(|back| back.contains(from))
            };
            let count = reached[from].iter().filter(in_cycle).count();
            let mut names: Vec<&str> = named.iter().map(|(_, name)| name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            violations.push(Violation {
                rule: Rule::ModuleCycle,
                file: (*from).to_owned(),
                line: named.iter().map(|(line, _)| *line).min().unwrap_or(1),
                message: format!(
                    "uses {} of {to}, which uses this file (a cycle of {count} files)",
                    names.join(", ")
                ),
            });
        }
    }
}

/// The items of a module, and the folder of its child modules' files.
#[derive(Clone, Copy)]
struct Contents<'a, 'b> {
    source: &'a Source,
    items: &'a [Item],
    folder: &'b str,
}

#[derive(Clone, Copy)]
struct Lookup {
    /// Whether the name is the last segment of its path.
    is_last: bool,
    /// Number of imports that have been followed so far.
    depth: usize,
}

/// Returns the files that a file uses, directly or indirectly.
fn reachable<'a>(start: &'a str, uses: &Uses<'a>) -> Vec<&'a str> {
    let mut reached = Vec::new();
    let mut pending = vec![start];
    while let Some(from) = pending.pop() {
        let first = (from, "");
        for &(_, to) in uses.range(first..).map(|(pair, _)| pair).take_while(|(a, _)| *a == from) {
            if !reached.contains(&to) {
                reached.push(to);
                pending.push(to);
            }
        }
    }
    reached
}

struct UseCollector<'t, 'a, 'u> {
    tree: &'t Tree<'a>,
    module: usize,
    uses: &'u mut Uses<'a>,
}

impl UseCollector<'_, '_, '_> {
    fn record(&mut self, path: &[String], at: Span) {
        let defines = |length: usize| match self.tree.resolve(self.module, &path[..length], 0) {
            Some(Target::Item(module)) => Some(module),
            _ => None,
        };
        let Some(module) = defines(path.len()) else { return };
        // Path segments after the item name a variant or an associated item of a type.
        let is_item = |length: &usize| defines(*length) == Some(module);
        let length = (1..=path.len()).find(is_item).unwrap_or(path.len());
        let [from, to] =
            [self.module, module].map(|module| self.tree.modules[module].source.path.as_str());
        if from != to {
            let name = path[length - 1].clone();
            self.uses.entry((from, to)).or_default().push((at.start().line, name));
        }
    }

    /// Records the paths in the tokens of a macro call.
    fn record_tokens(&mut self, tokens: &TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut start = Span::call_site();
        let mut colons = 0;
        let mut after_dot = false;
        for token in tokens.clone() {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.record(&std::mem::take(&mut path), start);
                        start = ident.span();
                    }
                    if !after_dot {
                        path.push(ident.to_string());
                    }
                    (colons, after_dot) = (0, false);
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' && !path.is_empty() => {
                    colons += 1;
                    after_dot = false;
                }
                other => {
                    self.record(&std::mem::take(&mut path), start);
                    colons = 0;
                    after_dot = matches!(
                        &other,
                        TokenTree::Punct(mark)
                            if mark.as_char() == '.' && mark.spacing() == Spacing::Alone
                    );
                    if let TokenTree::Group(group) = other {
                        self.record_tokens(&group.stream());
                    }
                }
            }
        }
        self.record(&path, start);
    }
}

impl<'ast> Visit<'ast> for UseCollector<'_, '_, '_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    /// Modules are visited separately.
    fn visit_item_mod(&mut self, _: &'ast ItemMod) {}

    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_item_use(&mut self, import: &'ast ItemUse) {
        if matches!(import.vis, Visibility::Inherited) {
            for leaf in leaves(import).into_iter().filter(|leaf| !leaf.is_glob) {
                self.record(&leaf.path, leaf.at);
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let names: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
            self.record(&names, path.segments[0].ident.span());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.record_tokens(&call.tokens);
        visit::visit_macro(self, call);
    }
}

/// One of the names that a `use` declaration imports.
struct Leaf {
    path: Vec<String>,
    /// The local name; `None` for `_` and globs.
    name: Option<String>,
    is_glob: bool,
    at: Span,
}

fn leaves(import: &ItemUse) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    if import.leading_colon.is_none() {
        collect_leaves(&import.tree, &[], &mut leaves);
    }
    leaves
}

fn collect_leaves(tree: &UseTree, before: &[String], leaves: &mut Vec<Leaf>) {
    let with = |name: &proc_macro2::Ident| {
        let mut path = before.to_vec();
        // `a::{self}` imports `a`.
        if path.is_empty() || name != "self" {
            path.push(name.to_string());
        }
        path
    };
    match tree {
        UseTree::Path(part) => collect_leaves(&part.tree, &with(&part.ident), leaves),
        UseTree::Name(part) => {
            let path = with(&part.ident);
            let name = path.last().cloned();
            let at = part.ident.span();
            leaves.push(Leaf { path, name, is_glob: false, at });
        }
        UseTree::Rename(part) => {
            let name = Some(part.rename.to_string()).filter(|name| name != "_");
            let path = with(&part.ident);
            leaves.push(Leaf { path, name, is_glob: false, at: part.ident.span() });
        }
        UseTree::Glob(part) => {
            let at = part.star_token.spans[0];
            leaves.push(Leaf { path: before.to_vec(), name: None, is_glob: true, at });
        }
        UseTree::Group(group) => {
            group.items.iter().for_each(|tree| collect_leaves(tree, before, leaves));
        }
    }
}

fn name_of(item: &Item) -> Option<String> {
    let ident = match item {
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
    };
    Some(ident.to_string())
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether the attributes contain `cfg(test)`, alone or combined with other conditions.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            let words: Vec<&str> = condition.split(|c: char| !c.is_alphanumeric()).collect();
            words.contains(&"test") && !words.contains(&"not")
        }
        _ => false,
    })
}

/// Returns the file that `#[path = "…"]` names.
fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) => Some(path.value()),
            _ => None,
        },
        _ => None,
    })
}
