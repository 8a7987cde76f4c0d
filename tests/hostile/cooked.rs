//! Builds the module of a case.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::support::{self, Data, Method};

pub(crate) fn text(case: &Path, name: &str) -> Option<String> {
    fs::read_to_string(case.join(name)).ok()
}

/// The case's payment method, or a file that is not one.
pub(crate) fn module(case: &Path) -> Vec<u8> {
    if let Some(text) = text(case, "component.wat") {
        return wat::parse_str(text).unwrap();
    }
    if let Some(recipe) = text(case, "recipe.txt") {
        return cooked(recipe.trim());
    }
    if let Some(verdicts) = text(case, "verdicts.txt") {
        return saying(&verdicts);
    }
    if let Some(label) = text(case, "label.txt") {
        return Method {
            label: Box::leak(label.trim().into()),
            ..Method::saying(&[("a", Ok("labelled"))])
        }
        .build();
    }
    let mut method = Method::ideal(text(case, "rank.wat").unwrap());
    method.more = text(case, "more.wat").unwrap_or_default();
    method.imports = text(case, "imports.wat").unwrap_or_default();
    method.build()
}

/// A method that returns these verdicts.
pub(crate) fn saying(verdicts: &str) -> Vec<u8> {
    let verdicts: Vec<_> = verdicts
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| {
            let mut parts = line.splitn(3, ' ');
            let (id, kind) = (parts.next().unwrap(), parts.next().unwrap());
            let words = parts.next().unwrap();
            (id, if kind == "ok" { Ok(words) } else { Err(words) })
        })
        .collect();
    Method::saying(&verdicts).build()
}

/// Modules that cannot be stored as a short text.
fn cooked(recipe: &str) -> Vec<u8> {
    let good = saying("a ok good");
    match recipe {
        "provider" => support::provider(Data::default(), "unreachable"),
        "truncated" => good[..good.len() / 2].to_vec(),
        "not-wasm" => b"#!/bin/sh\nrm -rf /\n".to_vec(),
        "core-module" => wat::parse_str("(module)").unwrap(),
        "thirty-megabytes" => padded(30 << 20),
        "forty-megabytes" => padded(40 << 20),
        "compile-bomb" => compile_bomb(),
        "newer-major" => newer_major(),
        "counting" => counting(),
        _ => panic!("no such recipe: {recipe}"),
    }
}

/// A component that contains only a custom section.
fn padded(length: usize) -> Vec<u8> {
    let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
    bytes.push(0);
    let mut rest = length;
    loop {
        let more = rest > 0x7f;
        bytes.push(u8::try_from(rest & 0x7f).unwrap() | u8::from(more) << 7);
        rest >>= 7;
        if !more {
            break;
        }
    }
    // The name of the section, one letter.
    bytes.extend(b"\x01x");
    bytes.resize(bytes.len() + length - 2, 0);
    bytes
}

/// A small module with a function that has thousands of values and thousands of branches.
fn compile_bomb() -> Vec<u8> {
    const VALUES: usize = 12_000;
    let mut body = String::new();
    for value in 0..VALUES {
        let other = (value * 7919 + 13) % VALUES;
        write!(
            body,
            "(if (local.get {other}) (then (local.set {value} (i32.add (local.get {other}) (i32.const {value})))))"
        )
        .unwrap();
    }
    let locals = "i32 ".repeat(VALUES);
    let mut method = Method::ideal("unreachable");
    method.more =
        format!("(func (export \"bomb\") (local {locals}) (loop $again {body} (br $again)))");
    method.build()
}

/// A module for a version of the contract that this host does not support.
fn newer_major() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(support::wit()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "wit") {
            let text = fs::read_to_string(&path).unwrap();
            let text = text.replace("@0.2.0", "@2.0.0");
            fs::write(folder.path().join(path.file_name().unwrap()), text).unwrap();
        }
    }
    let context = support::CONTEXT;
    let core = format!(
        r#"(module (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) unreachable)
        (func (export "kassette:plugin/routing@2.0.0#describe") (result i32) unreachable)
        (func (export "kassette:plugin/routing@2.0.0#check-settings") (param i32 i32) (result i32) unreachable)
        (func (export "kassette:plugin/routing@2.0.0#rank") {context} (result i32) unreachable))"#
    );
    support::component(folder.path(), "method", &core)
}

/// A module that counts its calls in memory and returns a reason with that number of letters.
fn counting() -> Vec<u8> {
    let mut method = Method::saying(&[("a", Ok("aaaaaaaa"))]);
    let answer = method.rank.clone();
    // The list is at offset 4 of the response, the reason's length at offset 16 of a verdict.
    method.rank = format!(
        "(local $list i32)
         (local.set $list (i32.load offset=4 {answer}))
         (i32.store (i32.const 16000) (i32.add (i32.load (i32.const 16000)) (i32.const 1)))
         (i32.store offset=16 (local.get $list) (i32.load (i32.const 16000)))
         {answer}"
    );
    method.build()
}
