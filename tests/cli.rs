//! The command line as its users meet it: help, errors and exit codes of the built program.

#![allow(clippy::unwrap_used, reason = "a test may panic anywhere")]

use assert_cmd::Command;

/// The program, without anything that this machine's environment would add.
fn noderotation(arguments: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("noderotation"));
    command.env_clear().args(arguments);
    command
}

/// Exit code, standard output and standard error, as one text.
fn ended(mut command: Command) -> String {
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    format!("exit {}\n--- stdout\n{out}--- stderr\n{err}", output.status.code().unwrap())
}

#[test]
fn help_says_what_it_is_for_and_what_to_type() {
    insta::assert_snapshot!(ended(noderotation(&["--help"])));
}

#[test]
fn help_of_run_teaches_flags_variables_and_exit_codes() {
    insta::assert_snapshot!(ended(noderotation(&["run", "--help"])));
}

#[test]
fn without_a_command_it_prints_help_and_exits_2() {
    let text = ended(noderotation(&[]));
    assert!(text.starts_with("exit 2\n--- stdout\n--- stderr\nReplaces Karpenter nodes"), "{text}");
}

#[test]
fn bad_usage_exits_2_and_says_what_would_be_right() {
    let cases: &[&[&str]] = &[
        &["run", "--cadence", "1.5h"],
        &["run", "--deadline", "0s"],
        &["run", "--concurrency", "0"],
        &["run", "--log-format", "xml"],
        &["run", "--grouping", "a=1"],
        &["run", "--pushgateway", "gw:9091"],
        &["run", "--pushgateway", "http://gw", "--grouping", "nodepool=x"],
        &["run", "--pushgateway", "http://gw", "--grouping", "job=x"],
        &["run", "--pushgateway", "http://gw", "--grouping", "1a=x"],
        &["run", "--pushgateway", "http://gw", "--grouping", "a"],
        &["run", "--pushgateway", "http://gw", "--grouping", "a=1,b=2", "--grouping", "a=3"],
        &["completion", "tcsh"],
        &["rotate"],
    ];
    let told: Vec<String> = cases.iter().map(|case| format!("$ noderotation {}\n{}", case.join(" "), ended(noderotation(case)))).collect();
    for text in &told {
        assert!(text.contains("\nexit 2\n--- stdout\n--- stderr\nerror: "), "{text}");
    }
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn a_variable_stands_for_a_flag_and_its_error_says_which() {
    let mut command = noderotation(&["run"]);
    command.env("NODEROTATION_CADENCE", "soon");
    let text = ended(command);
    assert!(text.starts_with("exit 2\n"), "{text}");
    assert!(text.contains("invalid value 'soon' for '--cadence <DURATION>'"), "{text}");
}

#[test]
fn every_flag_of_run_has_its_variable() {
    let help = ended(noderotation(&["run", "--help"]));
    let documented: Vec<&str> = help
        .lines()
        .filter(|line| line.starts_with("      --"))
        .filter_map(|line| line.trim_start().strip_prefix("--")?.split_whitespace().next())
        .collect();
    assert_eq!(documented.len(), 18, "{documented:?}");
    for flag in documented {
        let variable = format!("[env: NODEROTATION_{}]", flag.to_uppercase().replace('-', "_"));
        assert!(help.contains(&variable), "--{flag} has no {variable}");
    }
}

#[test]
fn completions_are_printed_for_the_usual_shells() {
    for shell in ["bash", "zsh", "fish"] {
        let text = ended(noderotation(&["completion", shell]));
        assert!(text.starts_with("exit 0\n") && text.contains("wait-for-lease"), "{shell}: {text}");
    }
}

#[test]
fn crd_prints_what_crds_holds() {
    let held = concat!(env!("CARGO_MANIFEST_DIR"), "/crds/noderotation.io_rotationpolicies.yaml");
    let text = ended(noderotation(&["crd"]));
    assert_eq!(text, format!("exit 0\n--- stdout\n{}--- stderr\n", std::fs::read_to_string(held).unwrap()));
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let mut program = std::process::Command::new(assert_cmd::cargo::cargo_bin!("noderotation"));
    let mut child = program.env_clear().arg("crd").stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
