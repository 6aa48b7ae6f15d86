use proptest::prelude::*;

use super::{judge::File, *};

const POLICY: &str = "\
apiVersion: noderotation.io/v1alpha1
kind: RotationPolicy
metadata:
  name: nights
spec:
  nodePoolSelector: {}
  maintenanceWindows:
    - timezone: Europe/Berlin
      days: [Wed, Sat]
      start: \"02:00\"
      end: \"06:00\"
";
const POOL: &str = "\
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: web
spec:
  template:
    spec:
      expireAfter: 336h
      terminationGracePeriod: 1h
";

const PIPE: Screen = Screen { width: None, height: None, colour: false, headers: true };

fn terms() -> Terms {
    Terms { now: parse_annotation("2026-11-30T07:00:00Z").unwrap(), cadence: TimeDelta::minutes(1), nodes: 0, lifetime: None }
}

fn file(name: &str, text: &str) -> File {
    File { name: name.into(), text: text.into() }
}

fn told(files: &[File]) -> String {
    show::text(&judge(files, &terms()), &terms(), PIPE)
}

#[test]
fn a_good_policy_tells_its_windows_and_its_pools_what_follows() {
    insta::assert_snapshot!(told(&[file("policy.yaml", POLICY), file("pools.yaml", POOL)]));
}

#[test]
fn each_problem_has_its_place_and_what_would_be_right() {
    let text = POLICY
        .replace("Europe/Berlin", "CET+1")
        .replace("02:00", "2:00")
        .replace("[Wed, Sat]", "[Wed, Saturday]")
        .replace("spec:", "spec:\n  minRotationChance: 2\n  surge:\n    readyTimeout: 1.5h");
    insta::assert_snapshot!(told(&[file("policy.yaml", &text), file("broken.yaml", "a: [\n")]));
}

#[test]
fn conflicts_findings_and_doubles_are_told_where_they_are_to_be_mended() {
    let saturdays = POLICY.replace("[Wed, Sat]", "[Sat]").replace("nights", "saturdays");
    let tied = format!("{POLICY}{POOL}---\n{saturdays}---\n{saturdays}");
    insta::assert_snapshot!(told(&[file("all.yaml", &tied)]));
    let fatal = format!("{}{}", saturdays, POOL.replace("      terminationGracePeriod: 1h\n", ""));
    insta::assert_snapshot!(told(&[file("fatal.yaml", &fatal)]));
}

#[test]
fn machines_read_json_sarif_and_workflow_commands() {
    let files = [file("a,b.yaml", &POLICY.replace("06:00", "6:00").replace("nights", "100%"))];
    let verdict = judge(&files, &terms());
    insta::assert_snapshot!(show::github(&verdict));
    insta::assert_snapshot!(show::json(&judge(&[file("p.yaml", POLICY), file("n.yaml", POOL)], &terms()), &terms()));
    let sarif: serde_json::Value = serde_json::from_str(&sarif::sarif(&verdict)).unwrap();
    assert_eq!(sarif["runs"][0]["results"].as_array().unwrap().len(), verdict.diagnostics.len());
    assert_eq!(sarif["runs"][0]["results"][1]["locations"][0]["physicalLocation"]["region"]["startLine"], 11);
}

#[test]
fn a_lifetime_on_the_command_line_stands_for_a_pool() {
    let terms = Terms { lifetime: Some(Lifetime { expire_after: Some(TimeDelta::days(3)), grace: None }), nodes: 500, ..terms() };
    insta::assert_snapshot!(show::text(&judge(&[file("policy.yaml", POLICY)], &terms), &terms, PIPE));
}

#[test]
fn a_blackout_that_nodes_do_not_outlive_is_told() {
    let blackout = "  blackouts:\n    - {timezone: Europe/Berlin, from: \"2026-12-19\", to: \"2027-01-04\", reason: holidays}\n";
    insta::assert_snapshot!(told(&[file("all.yaml", &format!("{POLICY}{blackout}{POOL}"))]));
    // Without a NodePool nobody knows how long nodes live.
    assert!(!told(&[file("policy.yaml", &format!("{POLICY}{blackout}"))]).contains("BlackoutCutsChances"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Any damage to a file is told, and never a panic.
    #[test]
    fn no_damage_panics(at in 0..POLICY.len() + POOL.len(), remove in 0..40usize, insert in "[-a-z:\\[\\]{}&*<\"' \n0-9~!|>#%@`,.\\PC]{0,6}") {
        let text = format!("{POLICY}{POOL}");
        let damaged = format!("{}{insert}{}", &text[..at], &text[(at + remove).min(text.len())..]);
        let verdict = judge(&[file("damaged.yaml", &damaged)], &terms());
        show::text(&verdict, &terms(), PIPE);
        sarif::sarif(&verdict);
    }
}
