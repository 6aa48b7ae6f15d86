//! What README and docs tell a person to type, and who runs each of it: a command that nobody runs rots.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Programs that a command begins with where it stands in the middle of a text.
const PROGRAMS: [&str; 8] = ["kubectl ", "noderotation ", "make ", "cargo ", "skopeo ", "sed ", "curl ", ".ci/"];

/// Commands that no test runs, and why.
pub const BY_NOBODY: [(&str, &str); 6] = [
    ("make test", "runs all the others"),
    ("make fuzz", "takes a quarter of an hour; the tests put some thousand objects through the same"),
    ("make kill", "takes half an hour; the tests kill some passes in the same way"),
    ("make bench", "measures, so it wants the machine for itself"),
    ("make bench-cluster", "measures, too, and fills a cluster for half an hour"),
    ("make advisories", "the advisory database can't be reached from everywhere"),
];

/// Something to type: one line, or a block whose lines only make sense together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Command {
    /// The text, without what a `#` explains.
    pub text: String,
    /// Where it stands, from the project's folder.
    pub page: PathBuf,
}

/// Who runs a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunBy {
    /// `tests/delivery/documented.rs`, on a control plane.
    ControlPlane,
    /// `tests/delivery/removal.rs`, in the middle of rotations.
    Removal,
    /// `tests/tools/image`.
    Image,
    /// `tests/tools/test`, as a check of its own.
    Checks,
    /// Nobody, and [`BY_NOBODY`] says why.
    Nobody,
}

impl Command {
    /// Who runs it; none for a command that nobody takes care of.
    pub fn run_by(&self) -> Option<RunBy> {
        let begins = |words: &[&str]| words.iter().any(|word| self.text.starts_with(word));
        if self.page == Path::new("docs/uninstall.md") {
            return Some(RunBy::Removal);
        }
        if BY_NOBODY.iter().any(|(command, _)| self.text == *command) {
            return Some(RunBy::Nobody);
        }
        if begins(&["kubectl ", "noderotation "]) {
            return Some(RunBy::ControlPlane);
        }
        if begins(&[".ci/image ", "skopeo copy "]) {
            return Some(RunBy::Image);
        }
        begins(&["make ", "cargo "]).then_some(RunBy::Checks)
    }
}

/// All pages for people.
pub fn pages(root: &Path) -> Vec<PathBuf> {
    let mut pages = vec![PathBuf::from("README.md"), PathBuf::from("kustomize/components/README.md")];
    for folder in ["docs", "docs/runbook"] {
        let entries = fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        let texts = entries.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
        pages.extend(texts.map(|path| path.strip_prefix(root).unwrap().to_owned()));
    }
    pages.sort();
    pages
}

/// Every command of every page; one that stands on several is named once for each.
pub fn commands(root: &Path) -> BTreeSet<Command> {
    let of_page = |page: PathBuf| {
        let text = fs::read_to_string(root.join(&page)).unwrap();
        in_text(&text).into_iter().map(move |text| Command { text, page: page.clone() })
    };
    pages(root).into_iter().flat_map(of_page).collect()
}

fn in_text(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (index, part) in text.split("```").enumerate() {
        match part.split_once('\n') {
            Some(("sh", block)) if index % 2 == 1 => found.extend(in_block(block)),
            _ if index % 2 == 1 => {}
            _ => found.extend(in_line(part)),
        }
    }
    found
}

/// A block with loops, functions or something in the background is one command, any other one for each line.
fn in_block(block: &str) -> Vec<String> {
    let indent = block.len() - block.trim_start().len();
    let lines: Vec<&str> = block.lines().map(|line| line.get(indent..).unwrap_or_default()).collect();
    if lines.iter().any(|line| line.ends_with('&') || line.ends_with("; do")) {
        return vec![lines.join("\n").trim().to_owned()];
    }
    let explained = |line: &&str| line.split(" #").next().unwrap_or_default().trim().to_owned();
    lines.iter().map(explained).filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

fn in_line(text: &str) -> Vec<String> {
    let spans = text.split('`').skip(1).step_by(2);
    spans.filter(|span| PROGRAMS.iter().any(|program| span.starts_with(program))).map(str::to_owned).collect()
}
