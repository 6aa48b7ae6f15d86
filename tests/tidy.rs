//! House rules over the project's own files, which no compiler checks. Each failure names the place and the fix.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic anywhere")]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A text file of the project.
struct Source {
    /// Its path from the project's root, with `/`.
    path: String,
    text: String,
}

impl Source {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether it is a part of the pure core, whose tests may use what they like.
    fn is_core(&self) -> bool {
        let is_test = self.path.ends_with("/tests.rs") || self.path.contains("/tests/");
        !is_test && CORE.iter().any(|module| self.path == format!("src/{module}.rs") || self.path.starts_with(&format!("src/{module}/")))
    }

    /// Places where one of the words stands, with the word.
    fn find<'a>(&'a self, words: &'a [&str]) -> impl Iterator<Item = String> + 'a {
        self.find_in(words, |_| true)
    }

    /// The same in code that is shipped: no comments, and nothing after `#[cfg(test)]`.
    fn find_shipped<'a>(&'a self, words: &'a [&str]) -> impl Iterator<Item = String> + 'a {
        let shipped = self.text.lines().position(|line| line == "#[cfg(test)]").unwrap_or(usize::MAX);
        self.find_in(words, move |(index, line)| index < shipped && !line.trim_start().starts_with("//"))
    }

    fn find_in<'a>(&'a self, words: &'a [&str], keep: impl Fn((usize, &str)) -> bool + 'a) -> impl Iterator<Item = String> + 'a {
        self.text.lines().enumerate().filter(move |(index, line)| keep((*index, line))).flat_map(move |(index, line)| {
            words.iter().filter(|word| contains(line, word)).map(move |word| format!("{}:{} {word}", self.path, index + 1))
        })
    }
}

/// Modules that are pure: values and `now` in, values out.
const CORE: [&str; 7] = ["api", "view", "policy", "schedule", "candidates", "surge", "rotation"];

/// Whether the word stands in the line, not as a part of a longer one.
fn contains(line: &str, word: &str) -> bool {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back().is_some_and(is_word) && word.starts_with(is_word);
        let after = line[start + word.len()..].chars().next().is_some_and(is_word) && word.ends_with(is_word);
        !before && !after
    })
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All text files of the project, by path, without what is built.
fn sources() -> Vec<Source> {
    fn walk(directory: &Path, found: &mut Vec<Source>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let path_from_root = path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
            if matches!(name.as_str(), "target" | ".git") || name.ends_with(".snap.new") {
                continue;
            }
            if path.is_dir() {
                walk(&path, found);
            } else if let Ok(text) = fs::read_to_string(&path) {
                found.push(Source { path: path_from_root, text });
            }
        }
    }
    let mut found = Vec::new();
    walk(&root(), &mut found);
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

/// Fails when anything is found, with what to do about it.
fn none(found: impl IntoIterator<Item = String>, fix: &str) {
    let found: Vec<String> = found.into_iter().collect();
    assert!(found.is_empty(), "\n{fix}:\n  {}\n", found.join("\n  "));
}

#[test]
fn a_file_is_one_idea() {
    let long = sources().into_iter().filter(|source| source.is_rust() && source.text.lines().count() > 500);
    none(
        long.map(|source| format!("{} has {} lines", source.path, source.text.lines().count())),
        "at most 500 lines a file: it is probably two ideas, so move one into a file of its own",
    );
}

#[test]
fn a_function_reads_at_one_level() {
    let long = sources().into_iter().filter(Source::is_rust).flat_map(|source| {
        functions(&source.text)
            .into_iter()
            .filter(|(_, _, length)| *length > 70)
            .map(|(line, name, length)| format!("{}:{line} fn {name} has {length} lines", source.path))
            .collect::<Vec<_>>()
    });
    none(long, "at most 70 lines a function: keep the branches, and move each branch's work into a function with a name");
}

/// Line, name and length of each function, as rustfmt lays them out: it ends with a brace under its first letter.
fn functions(text: &str) -> Vec<(usize, String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let words: Vec<&str> = code.split([' ', '(', '<']).collect();
        let Some(position) = words.iter().position(|word| *word == "fn") else { continue };
        let is_item = words[..position].iter().all(|word| ["pub", "crate)", "super)", "const", "async", ""].contains(word));
        let is_whole = code.ends_with('}') || code.ends_with(';');
        if !is_item || is_whole {
            continue;
        }
        let indent = &line[..line.len() - code.len()];
        let end = lines[index..]
            .iter()
            .position(|line| line.strip_prefix(indent).is_some_and(|rest| rest == "}" || (rest.starts_with(')') && rest.ends_with(';'))));
        found.push((index + 1, words[position + 1].to_owned(), end.unwrap_or(0) + 1));
    }
    found
}

#[test]
fn functions_are_measured_as_they_are_written() {
    let text = "fn one() {}\npub(crate) const fn two(\n    a: u8,\n) -> u8 {\n    a\n}\n    async fn three<T>() {\n    }\ntrait T {\n    fn four(\n    );\n    fn five();\n}\n";
    assert_eq!(functions(text), [(2, "two".into(), 5), (7, "three".into(), 2), (10, "four".into(), 2)]);
}

#[test]
fn only_the_clock_reads_the_wall_clock() {
    let words = ["Utc::now", "Local::now", "SystemTime::now", "Timestamp::now", "Zoned::now"];
    let sources = sources();
    let found = sources
        .iter()
        .filter(|source| source.is_rust() && source.path.starts_with("src/") && source.path != "src/clock.rs")
        .flat_map(|source| source.find_shipped(&words));
    none(found, "only src/clock.rs reads the wall clock: take `now` as an argument");
}

#[test]
fn the_core_is_pure() {
    let impure = [
        "kube::",
        "tokio",
        "tracing",
        "reqwest",
        "rand::",
        "futures",
        "tower",
        "clap",
        "std::env",
        "std::fs",
        "std::io",
        "std::net",
        "std::process",
        "Instant",
        "async",
        "println!",
        "eprintln!",
        "crate::cli",
        "crate::clock",
        "crate::cluster",
        "crate::pass",
        "crate::report",
        "crate::world",
    ];
    let sources = sources();
    let found = sources.iter().filter(|source| source.is_core()).flat_map(|source| {
        // The CRD is derived from its types there; that touches no client.
        let derives = source.path.starts_with("src/api/rotation_policy");
        source.find_shipped(&impure).filter(move |found| !(derives && found.ends_with(" kube::")))
    });
    none(found, "the core has no client, clock, logging or randomness: pass in what it needs as a value, and return what is to be done");
}

#[test]
fn the_core_is_exact_and_always_answers_in_the_same_order() {
    let sources = sources();
    let found =
        sources.iter().filter(|source| source.is_core()).flat_map(|source| source.find_shipped(&["HashMap", "HashSet", "f32", "f64"]));
    none(found, "the core uses BTreeMap and BTreeSet, whose order never varies, and no floating-point numbers");
}

#[test]
fn every_file_of_code_is_compiled() {
    let sources = sources();
    let text_of = |path: &str| sources.iter().find(|source| source.path == path).map(|source| source.text.as_str());
    let found = sources.iter().filter(|source| source.is_rust() && !is_root(&source.path)).filter_map(|source| {
        let (directory, name) = source.path.strip_suffix(".rs").unwrap().rsplit_once('/').unwrap();
        let parents = [format!("{directory}.rs"), format!("{directory}/lib.rs"), format!("{directory}/main.rs")];
        let declared = parents
            .iter()
            .filter_map(|parent| text_of(parent))
            .any(|text| text.lines().any(|line| contains(line, &format!("mod {name};")) && !line.trim_start().starts_with("//")));
        (!declared).then(|| format!("{}: no `mod {name};` in any of {}", source.path, parents.join(", ")))
    });
    none(found, "declare the file as a module in its parent, or delete it: nothing compiles it");
}

/// Whether cargo finds the file by itself.
fn is_root(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let (directories, name) = parts.split_at(parts.len() - 1);
    match directories.last() {
        None => name == ["build.rs"],
        Some(&"src") => matches!(name, ["lib.rs" | "main.rs"]),
        Some(&("tests" | "benches" | "examples" | "bin")) => true,
        // A test, benchmark or program of several files.
        Some(_) => {
            name == ["main.rs"] && matches!(directories[..directories.len() - 1].last(), Some(&("tests" | "benches" | "examples" | "bin")))
        }
    }
}

#[test]
fn names_say_what_is_in_it() {
    let banned = ["util", "utils", "helper", "helpers", "common", "manager", "misc", "mod"];
    let found = sources()
        .into_iter()
        .filter(Source::is_rust)
        .filter(|source| source.path.strip_suffix(".rs").unwrap().split(['/', '_']).any(|part| banned.contains(&part)));
    none(found.map(|source| source.path), "name the file after what it holds (and put `foo.rs` beside `foo/`, never `foo/mod.rs`)");
}

#[test]
fn no_test_is_skipped_and_nothing_is_put_off() {
    let words = [concat!("#[", "ignore"), concat!("TO", "DO"), concat!("FIX", "ME")];
    let sources = sources();
    let found = sources.iter().filter(|source| source.is_rust()).flat_map(|source| source.find(&words));
    none(found, "do it now, or file an issue: a test never passes by being skipped, and a promise in a comment is never kept");
}

#[test]
fn no_path_of_a_machine_is_in_any_file() {
    let paths = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];
    let sources = sources();
    let found = sources.iter().flat_map(|source| source.find(&paths));
    none(found, "a path of one machine means nothing on another: make it relative, or an argument");
}

/// Hosts that the project may name.
const HOSTS: [&str; 8] = [
    "docs.aws.amazon.com",
    "github.com",
    "json.schemastore.org",
    "karpenter.sh",
    "kubernetes.io",
    "prometheus.io",
    "www.apache.org",
    "www.w3.org",
];

#[test]
fn only_public_hosts_are_named() {
    let sources = sources();
    let found = sources.iter().flat_map(|source| {
        source.text.lines().enumerate().flat_map(move |(index, line)| {
            hosts(line).filter(|host| !is_public(host)).map(move |host| format!("{}:{} {host}", source.path, index + 1))
        })
    });
    none(found, "name only hosts that everybody reaches: add a public one to HOSTS in tests/tidy.rs, and leave out any other");
}

/// The hosts of the URLs in a line.
fn hosts(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("://").filter_map(|(start, scheme)| {
        let before = line[..start].chars().next_back()?;
        let rest = &line[start + scheme.len()..];
        let authority = rest.split(|next: char| !(next.is_ascii_alphanumeric() || "-.:@_[]".contains(next))).next()?;
        let host = authority.rsplit('@').next()?.split(':').next()?;
        before.is_ascii_alphabetic().then_some(host)
    })
}

/// Public, reserved for documentation, or a name inside a cluster or this machine.
fn is_public(host: &str) -> bool {
    let host = host.trim_end_matches('.');
    let reserved = [".example", ".example.com", ".example.org", ".internal", ".invalid", ".test", ".monitoring", ".svc", ".local"];
    !host.contains('.')
        || ["127.", "10."].iter().any(|network| host.starts_with(network))
        || HOSTS.contains(&host)
        || reserved.iter().any(|suffix| host.ends_with(suffix))
}

#[test]
fn dependencies_come_from_the_public_registry() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let found = lock
        .lines()
        .filter(|line| line.starts_with("source = ") && *line != "source = \"registry+https://github.com/rust-lang/crates.io-index\"")
        .map(str::to_owned);
    none(found, "take dependencies from crates.io, by version");
}
