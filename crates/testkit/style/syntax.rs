//! Rules for function parameters, `let` with tuples, and words in identifiers.
//!
//! Code inside macros is not parsed. Its tokens are searched for functions and identifiers.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Expr, FnArg, ImplItemFn, ItemFn, Local, Macro, Pat, Signature, TraitItemFn, Type};

use super::{MAX_PARAMETERS, Rule, Source, VOICE, Violation};

pub(crate) fn check(source: &Source, violations: &mut Vec<Violation>) {
    let mut checker = Checker { file: &source.path, words: BTreeSet::new(), violations };
    checker.visit_file(&source.tree);
}

struct Checker<'a> {
    file: &'a str,
    /// Identifiers that were already reported: each is reported once per file.
    words: BTreeSet<String>,
    violations: &'a mut Vec<Violation>,
}

impl Checker<'_> {
    fn report(&mut self, rule: Rule, at: Span, message: String) {
        let line = at.start().line;
        self.violations.push(Violation { rule, file: self.file.to_owned(), line, message });
    }

    fn check_signature(&mut self, signature: &Signature) {
        let typed: Vec<_> = signature
            .inputs
            .iter()
            .filter_map(|input| match input {
                FnArg::Typed(parameter) => Some(parameter),
                FnArg::Receiver(_) => None,
            })
            .collect();
        let takes_tuple = typed
            .iter()
            .any(|parameter| is_tuple_pattern(&parameter.pat) || is_tuple(&parameter.ty));
        self.check_parameters(&signature.ident, typed.len(), takes_tuple);
    }

    fn check_parameters(&mut self, name: &Ident, count: usize, takes_tuple: bool) {
        if count > MAX_PARAMETERS {
            let message = format!("`{name}` takes {count} parameters, at most {MAX_PARAMETERS}");
            self.report(Rule::ManyParameters, name.span(), message);
        }
        if takes_tuple {
            let message = format!("`{name}` takes a tuple: name its members");
            self.report(Rule::TupleParameter, name.span(), message);
        }
    }

    /// Checks the functions and identifiers in the tokens of a macro.
    fn check_tokens(&mut self, tokens: &TokenStream) {
        let mut function: Option<Ident> = None;
        let mut after_fn = false;
        for token in tokens.clone() {
            match token {
                TokenTree::Ident(ident) => {
                    self.visit_ident(&ident);
                    if after_fn {
                        function = Some(ident.clone());
                    }
                    after_fn = ident == "fn";
                }
                TokenTree::Group(group) => {
                    if let Some(name) = function.take_if(|_| is_parenthesis(&group)) {
                        let parameters = parameters(&group.stream());
                        let takes_tuple = parameters.iter().any(|one| is_tuple_parameter(one));
                        self.check_parameters(&name, parameters.len(), takes_tuple);
                    }
                    self.check_tokens(&group.stream());
                }
                _ => {}
            }
        }
    }
}

fn is_parenthesis(group: &Group) -> bool {
    group.delimiter() == Delimiter::Parenthesis
}

/// Returns the parameters of a function in a macro, without `self` and the parameters of
/// `proptest!` (`name in strategy`).
fn parameters(tokens: &TokenStream) -> Vec<Vec<TokenTree>> {
    let mut parameters = vec![Vec::new()];
    let mut depth = 0;
    let mut before = ' ';
    for token in tokens.clone() {
        let mark = if let TokenTree::Punct(mark) = &token { mark.as_char() } else { ' ' };
        match mark {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        before = mark;
        if mark == ',' && depth == 0 {
            parameters.push(Vec::new());
        } else if let Some(last) = parameters.last_mut() {
            last.push(token);
        }
    }
    parameters.retain(|one| {
        let is = |token: &TokenTree, word: &str| token.to_string() == word;
        one.iter().any(|token| is(token, ":")) && !one.iter().any(|token| is(token, "in"))
    });
    parameters
}

/// Whether the pattern or the type of a parameter in a macro is a tuple.
fn is_tuple_parameter(parameter: &[TokenTree]) -> bool {
    let is_tuple = |token: &TokenTree| match token {
        TokenTree::Group(group) => is_parenthesis(group) && !group.stream().is_empty(),
        _ => false,
    };
    let starts_with_tuple = parameter.first().is_some_and(is_tuple);
    // Both `&(A, B)` and `impl Fn(A, B)` end in parentheses, but only `&` and `mut` may precede a
    // tuple.
    let after_colon = parameter.iter().skip_while(|token| token.to_string() != ":").skip(1);
    let mut kind = after_colon.skip_while(|token| matches!(&*token.to_string(), "&" | "mut"));
    starts_with_tuple || kind.next().is_some_and(is_tuple)
}

impl<'ast> Visit<'ast> for Checker<'_> {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.check_signature(&function.sig);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.check_signature(&function.sig);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        self.check_signature(&function.sig);
        visit::visit_trait_item_fn(self, function);
    }

    fn visit_local(&mut self, local: &'ast Local) {
        let value = local.init.as_ref().map(|init| &*init.expr);
        if is_tuple_pattern(&local.pat) && matches!(value, Some(Expr::Tuple(_))) {
            let message = "several names in one `let`: write one `let` for each".to_owned();
            self.report(Rule::TupleLet, local.let_token.span, message);
        }
        visit::visit_local(self, local);
    }

    fn visit_ident(&mut self, ident: &'ast Ident) {
        let name = ident.to_string();
        let Some((word, instead)) = forbidden(&name) else { return };
        if !self.words.contains(&name) {
            let message = format!("`{name}` contains `{word}`: use {instead}");
            self.report(Rule::Voice, ident.span(), message);
            self.words.insert(name);
        }
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.check_tokens(&call.tokens);
        visit::visit_macro(self, call);
    }
}

/// Whether a type is a tuple or a reference to a tuple. The unit type does not count.
fn is_tuple(kind: &Type) -> bool {
    match kind {
        Type::Tuple(tuple) => !tuple.elems.is_empty(),
        Type::Reference(reference) => is_tuple(&reference.elem),
        Type::Paren(inner) => is_tuple(&inner.elem),
        Type::Group(inner) => is_tuple(&inner.elem),
        _ => false,
    }
}

/// Whether a pattern destructures a tuple.
fn is_tuple_pattern(pattern: &Pat) -> bool {
    match pattern {
        Pat::Tuple(tuple) => !tuple.elems.is_empty(),
        Pat::Reference(reference) => is_tuple_pattern(&reference.pat),
        Pat::Paren(inner) => is_tuple_pattern(&inner.pat),
        Pat::Type(typed) => is_tuple_pattern(&typed.pat),
        _ => false,
    }
}

/// Returns the word of [`VOICE`] that an identifier contains, and its replacement.
fn forbidden(name: &str) -> Option<(&'static str, &'static str)> {
    let name = format!("_{}_", snake_case(name));
    VOICE.into_iter().find(|(word, _)| name.contains(&format!("_{word}_")))
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    let mut after_lower = false;
    for letter in name.chars() {
        if letter.is_uppercase() && after_lower {
            snake.push('_');
        }
        after_lower = letter.is_lowercase() || letter.is_numeric();
        snake.extend(letter.to_lowercase());
    }
    snake
}
