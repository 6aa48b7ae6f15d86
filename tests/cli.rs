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
        &["turn"],
        &["check"],
        &["check", "--expire-after", "14d", "-"],
        &["check", "--tgp", "1h", "-"],
        &["freeze", "web", "--until", "tomorrow"],
        &["freeze", "web", "--until", "2030-01-07T06:00:00Z", "--for", "1h"],
        &["plan", "-o", "html"],
        &["plan", "web", "--policy", "nights"],
        &["simulate", "--days", "0"],
        &["simulate", "--nodes", "2", "--pools", "3"],
        &["simulate", "--window", "Wed 02:00-06:00 CEST"],
        &["simulate", "--window", "02:00-06:00"],
        &["simulate", "--expire-after", "14d"],
        &["simulate", "--from", "tomorrow"],
        &["simulate", "--fail-capacity", "2am"],
        &["simulate", "--outage", "0s"],
        &["simulate", "-f", "missing.yaml"],
        &["simulate", "-f", "x.yaml", "--from-cluster"],
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
        assert!(text.starts_with("exit 0\n") && text.contains("COMPLETE"), "{shell}: {text}");
    }
}

/// `kubectl` runs the script with the words that follow the plugin's name, and takes lines and a last one with a number.
#[test]
fn kubectl_completes_its_plugin_by_the_printed_script() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let directory = tempfile::tempdir().unwrap();
    symlink(assert_cmd::cargo::cargo_bin!("noderotation"), directory.path().join("kubectl-noderotation")).unwrap();
    let script = directory.path().join("kubectl_complete-noderotation");
    std::fs::write(&script, noderotation(&["completion", "kubectl"]).output().unwrap().stdout).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let offered = |words: &[&str]| {
        let mut command = Command::new(&script);
        command.env_clear().env("PATH", directory.path()).args(words);
        ended(command)
    };
    assert_eq!(offered(&["unf"]), "exit 0\n--- stdout\nunfreeze\tLet rotations start on a NodePool again\n:4\n--- stderr\n");
    assert!(offered(&["plan", "--poli"]).contains("\n--policy\t"), "{}", offered(&["plan", "--poli"]));
    assert!(offered(&["status", "-o", ""]).contains("\njson\t"), "{}", offered(&["status", "-o", ""]));
    assert_eq!(offered(&["plan", "w"]), "exit 0\n--- stdout\n:4\n--- stderr\n", "no cluster, no name, no error");
}

#[test]
fn completions_offer_commands_and_flags_and_nothing_where_no_cluster_answers() {
    let offered = |words: &[&str]| {
        let mut command = noderotation(&[&["--", "noderotation"], words].concat());
        command.env("COMPLETE", "fish").env("_CLAP_COMPLETE_INDEX", words.len().to_string());
        ended(command)
    };
    assert!(offered(&["unf"]).contains("unfreeze\t"), "{}", offered(&["unf"]));
    assert!(offered(&["plan", "--max"]).contains("--max-in-flight"), "{}", offered(&["plan", "--max"]));
    assert_eq!(offered(&["freeze", "w"]).lines().next(), Some("exit 0"));
}

const POLICY: &str = "\
apiVersion: noderotation.io/v1alpha1
kind: RotationPolicy
metadata: {name: nights}
spec:
  nodePoolSelector: {}
  maintenanceWindows: [{timezone: UTC, days: [Wed, Sat], start: \"02:00\", end: \"06:00\"}]
";

#[test]
fn check_ends_with_0_1_or_2() {
    let empty = tempfile::tempdir().unwrap();
    let check = |arguments: &[&str], text: String| {
        let mut command = noderotation(&[&["check", "--at", "2030-01-01T00:00:00Z"], arguments].concat());
        command.current_dir(empty.path());
        command.write_stdin(text);
        ended(command)
    };
    let good = check(&["-"], POLICY.into());
    assert!(good.starts_with("exit 0\n--- stdout\nnights: P 96h, D 4h, gap 68h\n"), "{good}");
    let bad = check(&["-"], POLICY.replace("02:00", "2:00"));
    assert!(bad.starts_with("exit 1\n--- stdout\n-:6:65: error: RotationPolicy nights: spec.maintenanceWindows[0].start: "), "{bad}");
    let short = check(&["--expire-after", "72h", "--tgp", "1h", "-"], POLICY.into());
    assert!(short.starts_with("exit 1\n") && short.contains("[ANonPositive]"), "{short}");
    let none = check(&["."], String::new());
    assert!(none.starts_with("exit 2\n--- stdout\n--- stderr\nerror: there is no .yaml, .yml or .json file in . and"), "{none}");
    let missing = check(&["missing.yaml"], String::new());
    assert!(missing.starts_with("exit 2\n--- stdout\n--- stderr\nerror: reading missing.yaml: "), "{missing}");
}

#[test]
fn help_of_simulate_teaches_fleets_what_ifs_and_exit_codes() {
    insta::assert_snapshot!(ended(noderotation(&["simulate", "--help"])));
}

#[test]
fn a_forecast_is_the_same_byte_for_byte_and_a_pipe_gets_nothing_else() {
    let arguments = ["simulate", "--nodes", "4", "--pools", "2", "--days", "8", "--from", "2026-12-01", "-o", "json", "--seed", "5"];
    let first = noderotation(&arguments).output().unwrap();
    assert_eq!((first.status.code(), first.stderr.len()), (Some(0), 0));
    assert!(first.stdout.len() > 1000);
    assert_eq!(noderotation(&arguments).output().unwrap().stdout, first.stdout);
    let mut read = noderotation(&["simulate", "--days", "1", "-o", "yaml", "--policy", "-"]);
    read.write_stdin(POLICY);
    let text = ended(read);
    assert!(text.starts_with("exit 0\n--- stdout\nseed: 1\n") && text.contains("policy: nights"), "{text}");
    let html = ended(noderotation(&["simulate", "--days", "1", "--html", "/no/such/folder/page.html"]));
    assert!(html.starts_with("exit 1\n--- stdout\n--- stderr\nerror: writing /no/such/folder/page.html: "), "{html}");
}

#[test]
fn as_a_plugin_of_kubectl_help_says_what_is_typed_there() {
    let directory = tempfile::tempdir().unwrap();
    let plugin = directory.path().join("kubectl-noderotation");
    std::os::unix::fs::symlink(assert_cmd::cargo::cargo_bin!("noderotation"), &plugin).unwrap();
    let mut command = Command::new(&plugin);
    command.env_clear().args(["plan", "--help"]);
    let text = ended(command);
    assert!(text.contains("Usage: kubectl noderotation plan [OPTIONS] [POOL]"), "{text}");
}

#[test]
fn every_command_has_a_manual_page() {
    let directory = tempfile::tempdir().unwrap();
    assert!(ended(noderotation(&["man", directory.path().to_str().unwrap()])).starts_with("exit 0\n"));
    for command in ["run", "plan", "status", "check", "freeze", "unfreeze", "rotate", "abort", "simulate"] {
        let page = std::fs::read_to_string(directory.path().join(format!("noderotation-{command}.1"))).unwrap();
        assert!(page.contains(".SH DESCRIPTION"), "{page}");
    }
}

#[test]
fn without_a_cluster_commands_say_what_was_tried() {
    for arguments in [
        &["plan"][..],
        &["status"],
        &["simulate", "--from-cluster"],
        &["freeze", "web", "--yes"],
        &["rotate", "web-1", "--yes"],
        &["abort", "web", "--yes"],
    ] {
        let mut command = noderotation(arguments);
        command.args(["--kubeconfig", "missing"]);
        let text = ended(command);
        assert!(text.starts_with("exit 3\n--- stdout\n--- stderr\nerror: the kubeconfig can't be used: "), "{text}");
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
