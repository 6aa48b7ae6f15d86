use super::*;
use crate::{
    cli::{only::Only, when::Reader},
    fixture::{self, NOW},
};

const SCREEN: Screen = Screen { width: Some(120), height: None, colour: false, headers: true };

fn plan(pool: Option<&str>) -> Plan {
    let view = fixture::view();
    let config = fixture::config();
    Plan::of(&view, &decide(&view, fixture::at(NOW), &config), fixture::at(NOW), &config, pool.map_or(Only::All, Only::Pool))
}

fn told(pool: Option<&str>, format: Format, screen: Screen) -> String {
    render(&plan(pool), pool.is_some(), format, screen, Reader::In("America/New_York".parse().unwrap())).unwrap()
}

#[test]
fn the_table_has_a_line_for_every_pool_and_fits_the_terminal() {
    for width in [80, 120, 200] {
        let text = told(None, Format::Table, Screen { width: Some(width), ..SCREEN });
        assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
        insta::assert_snapshot!(format!("table_{width}"), text);
    }
    insta::assert_snapshot!("wide_in_a_pipe", told(None, Format::Wide, Screen { width: None, headers: false, ..SCREEN }));
    assert_eq!(told(None, Format::Name, SCREEN).lines().next(), Some("nodepool.karpenter.sh/alone"));
}

#[test]
fn a_pool_in_depth_shows_numbers_gates_candidates_and_the_writes_with_their_conditions() {
    for pool in ["web", "batch", "api"] {
        insta::assert_snapshot!(format!("deep_{pool}"), told(Some(pool), Format::Table, SCREEN));
    }
}

#[test]
fn json_has_the_documented_shape() {
    insta::assert_snapshot!(told(Some("web"), Format::Json, SCREEN));
}

#[test]
fn colour_only_where_it_is_asked_for() {
    assert!(!told(None, Format::Table, SCREEN).contains('\u{1b}'));
    assert!(told(None, Format::Table, Screen { colour: true, ..SCREEN }).contains("\u{1b}["));
}

/// What `plan` says is what the next pass does: both are the same decision.
#[test]
fn the_writes_told_are_the_writes_of_the_decision() {
    let view = fixture::view();
    let decision = decide(&view, fixture::at(NOW), &fixture::config());
    for pool in plan(None).pools {
        let step = &decision.steps[&pool.name];
        let told: Vec<String> = pool.step.effects.iter().map(|write| write.what.clone()).collect();
        let decided: Vec<String> = step.aside.iter().chain(&step.effects).map(|planned| planned.effect.to_string()).collect();
        assert_eq!((pool.step.action, told), (step.action.code, decided));
    }
}
