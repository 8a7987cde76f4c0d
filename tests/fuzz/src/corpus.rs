//! Inputs without libFuzzer: `seeds/<target>/*`, written by people, and `corpus/<target>.jsonl`, found by fuzzing,
//! with one input per line as a JSON string whose characters are the bytes.

use std::fs;
use std::path::{Path, PathBuf};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The seeds with their file names.
pub fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    files(&here().join("seeds").join(target))
}

/// The inputs found by fuzzing with their line numbers.
pub fn kept(target: &str) -> Vec<(String, Vec<u8>)> {
    let text = fs::read_to_string(packed(target)).unwrap_or_default();
    let bytes = |line: &str| -> Vec<u8> {
        let text: String = serde_json::from_str(line).expect("a line is a JSON string");
        let byte = |c: char| u8::try_from(u32::from(c)).expect("a character is a byte");
        text.chars().map(byte).collect()
    };
    let named = |(at, line): (usize, &str)| (format!("line {}", at + 1), bytes(line));
    text.lines().enumerate().map(named).collect()
}

/// Writes all inputs to a folder, each in a file, as libFuzzer needs them.
pub fn unpack(target: &str, folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    for (name, bytes) in seeds(target).into_iter().chain(kept(target)) {
        fs::write(folder.join(name.replace(' ', "-")), bytes).unwrap();
    }
}

/// Replaces the corpus with the files of a folder that are not seeds.
pub fn pack(target: &str, folder: &Path) {
    let seeds = seeds(target);
    let mut lines: Vec<String> = files(folder)
        .into_iter()
        .filter(|(_, bytes)| seeds.iter().all(|(_, seed)| seed != bytes))
        .map(|(_, bytes)| {
            let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
            serde_json::to_string(&text).unwrap() + "\n"
        })
        .collect();
    lines.sort();
    fs::write(packed(target), lines.concat()).unwrap();
}

fn packed(target: &str) -> PathBuf {
    here().join("corpus").join(format!("{target}.jsonl"))
}

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut files: Vec<_> = entries
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}
