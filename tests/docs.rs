//! The tables in `docs/` are the code's own tables, and every link leads somewhere. `UPDATE_DOCS=1 cargo test --test docs`
//! writes the tables anew; read the difference before committing it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic anywhere")]

use std::{
    fs,
    path::{Path, PathBuf},
};

#[allow(dead_code, reason = "shared with the tests that run the commands")]
#[path = "delivery/commands.rs"]
mod commands;

use commands::{BY_NOBODY, RunBy, commands, pages};
use noderotation::{
    api::{
        events::{Kind as EventKind, Lasting, REASONS},
        keys::ANNOTATIONS,
    },
    report::metrics::{Kind, METRICS},
    schedule::findings::{FINDINGS, Level},
};

/// Before and after a table that comes from the code.
const BEGIN: &str = "<!-- table from the code -->\n";
const END: &str = "<!-- end of table -->\n";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>().join(" | "));
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    let rule = format!("|{}\n", "---|".repeat(head.len()));
    std::iter::once(line(&head)).chain([rule]).chain(rows.into_iter().map(|row| line(&row))).collect()
}

/// Compares a document's table with the code's, or writes it.
fn check(document: &str, table: &str) {
    let path = root().join("docs").join(document);
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap_or_else(|| panic!("docs/{document} has no {BEGIN}"));
    let (written, after) = rest.split_once(END).unwrap_or_else(|| panic!("docs/{document} has no {END}"));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        return;
    }
    let wanted: Vec<&str> = table.lines().filter(|row| !written.lines().any(|other| other == *row)).collect();
    let stale: Vec<&str> = written.lines().filter(|row| !table.lines().any(|other| other == *row)).collect();
    assert!(
        written == table,
        "\ndocs/{document} differs from the code; `UPDATE_DOCS=1 cargo test --test docs` writes its table.\nmissing:\n  {}\nstale:\n  {}\n",
        wanted.join("\n  "),
        stale.join("\n  ")
    );
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

#[test]
fn metrics_are_documented() {
    let rows = METRICS.iter().map(|metric| {
        let kind = match metric.kind() {
            Kind::Gauge => "gauge",
            Kind::Untyped => "untyped",
            Kind::Counter => "counter",
            Kind::Histogram => "histogram",
        };
        let labels: Vec<String> = metric.labels.iter().map(|label| code(label)).collect();
        vec![code(metric.name), kind.into(), labels.join(", "), metric.help.into()]
    });
    check("metrics.md", &table(&["Metric", "Type", "Labels", "Meaning"], rows));
}

#[test]
fn events_are_documented() {
    let rows = REASONS.iter().map(|about| {
        let kind = match about.kind {
            EventKind::Normal => "Normal",
            EventKind::Warning => "Warning",
        };
        let lasting = match about.lasting {
            Lasting::Transition => "once",
            Lasting::Condition => "while it lasts",
        };
        vec![code(about.name), about.on.into(), kind.into(), lasting.into(), about.meaning.into()]
    });
    check("events.md", &table(&["Reason", "About", "Type", "Told", "Meaning"], rows));
}

#[test]
fn findings_are_documented() {
    let rows = FINDINGS.iter().map(|(_, name, level, meaning)| {
        let level = match level {
            Level::Fatal => "fatal",
            Level::Warn => "warning",
        };
        vec![code(name), level.into(), (*meaning).into()]
    });
    check("findings.md", &table(&["Finding", "Level", "Meaning"], rows));
}

#[test]
fn state_is_documented() {
    let rows = ANNOTATIONS.iter().map(|key| vec![code(key.key), key.on.into(), key.value.into(), key.purpose.into()]);
    check("state.md", &table(&["Key", "On", "Value", "What it is for"], rows));
}

#[test]
fn every_link_leads_to_a_file() {
    let broken: Vec<String> = pages(&root())
        .into_iter()
        .map(|page| root().join(page))
        .flat_map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            let broken: Vec<String> =
                links(&text).filter(|link| !leads_somewhere(&path, link)).map(|link| format!("{}: {link}", path.display())).collect();
            broken
        })
        .collect();
    assert!(broken.is_empty(), "\ncorrect the link, or write the file:\n  {}\n", broken.join("\n  "));
}

fn links(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("](").filter_map(|(start, opening)| text[start + opening.len()..].split(')').next())
}

/// Whether a link's file is there, and in it the heading that it names.
fn leads_somewhere(document: &Path, link: &str) -> bool {
    if link.contains("://") {
        return true;
    }
    let (file, heading) = link.split_once('#').map_or((link, None), |(file, heading)| (file, Some(heading)));
    let target = if file.is_empty() { document.to_owned() } else { document.parent().unwrap().join(file) };
    match heading {
        None => target.exists(),
        Some(heading) => fs::read_to_string(target).is_ok_and(|text| text.lines().filter_map(anchor).any(|anchor| anchor == heading)),
    }
}

/// The anchor that a heading makes.
fn anchor(line: &str) -> Option<String> {
    let heading = line.strip_prefix('#')?.trim_start_matches('#').strip_prefix(' ')?;
    let kept = heading.to_lowercase().chars().filter(|next| next.is_alphanumeric() || " -_".contains(*next)).collect::<String>();
    Some(kept.replace(' ', "-"))
}

#[test]
fn every_command_is_run_by_a_test() {
    let commands = commands(&root());
    assert!(commands.len() > 50, "{commands:#?}");
    let by_none: Vec<String> = commands
        .iter()
        .filter(|command| command.run_by().is_none())
        .map(|command| format!("{}: {}", command.page.display(), command.text))
        .collect();
    assert!(by_none.is_empty(), "\nhave a test run it (tests/delivery/commands.rs says which can):\n  {}\n", by_none.join("\n  "));
    for (command, why) in BY_NOBODY {
        assert!(commands.iter().any(|other| other.text == command), "no page has {command:?} any more ({why})");
    }
    let checks = fs::read_to_string(root().join("tests/tools/test")).unwrap();
    for command in commands.iter().filter(|command| command.run_by() == Some(RunBy::Checks)) {
        assert!(checks.contains(&command.text), "tests/tools/test doesn't run {:?}", command.text);
    }
}

#[test]
fn the_policy_to_copy_is_valid() {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let blocks: Vec<&str> = text.split("```").filter(|block| block.contains("kind: RotationPolicy\n")).collect();
    assert_eq!(blocks.len(), 1);
    let yaml = blocks[0].strip_prefix("yaml\n").unwrap();
    let policy = noderotation::policy::read::policy(&serde_yaml_ng::from_str(yaml).unwrap());
    assert_eq!(policy.problems, []);
}

/// Its first line says how it is made; a forecast from a fixed day is always the same.
const FORECAST: &str = "$ cargo run --release -- simulate --from 2026-12-01\n";

#[test]
fn the_forecast_in_the_readme_is_true() {
    let mut command = assert_cmd::Command::new(assert_cmd::cargo::cargo_bin!("noderotation"));
    let output = command.env_clear().args(["simulate", "--from", "2026-12-01"]).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = told.lines().map(str::trim_end).collect();
    let place = |word: &str| lines.iter().position(|line| line.contains(word)).unwrap_or_else(|| panic!("no {word} in\n{told}"));
    let (days, sums) = (place("DAY ("), place("WITH NODEROTATION"));
    let sample = [&lines[..1], &[""], &lines[days..days + 6], &["[...]", ""], &lines[sums..]].concat().join("\n");
    let path = root().join("README.md");
    let readme = fs::read_to_string(&path).unwrap();
    let (before, rest) = readme.split_once(FORECAST).unwrap_or_else(|| panic!("README.md has no {FORECAST}"));
    let (written, after) = rest.split_once("\n```").unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{before}{FORECAST}{sample}\n```{after}")).unwrap();
        return;
    }
    assert!(written == sample, "README.md differs; `UPDATE_DOCS=1 cargo test --test docs` writes what it really says:\n{sample}");
}
