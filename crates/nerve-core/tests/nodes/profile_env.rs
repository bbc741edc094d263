//! Variables of a profile: all of them or none.

use crate::harness::Stage;

const SHOW: &str = r#"echo "PS0${PS0:+ set}, ${PROMPT_COMMAND:-none}""#;

/// Variables of our own environment count as the server's: inside a node of nerve there is nothing to see here.
fn is_inherited() -> bool {
    ["PS0", "PROMPT_COMMAND"].iter().any(|name| std::env::var_os(name).is_some())
}

/// Starts the shell with variables of the user's and says what it has of the profile's.
async fn shown(own: &[(&str, &str)]) -> String {
    let stage = Stage::new();
    let mut spec = stage.spec("sh", &["bash", "--norc", "--noprofile"]);
    spec.env.extend(own.iter().map(|(name, value)| (name.to_string(), value.to_string())));
    stage.engine.create(spec).await.unwrap();
    let text = stage.ask("sh", SHOW).await.text;
    stage.stop("sh").await;
    text
}

#[tokio::test]
async fn variables_that_belong_together_are_set_together() {
    if is_inherited() {
        return;
    }
    let shown = shown(&[]).await;
    assert!(shown.starts_with("PS0 set, ") && shown.contains("133;D"), "{shown}");
}

#[tokio::test]
async fn one_that_the_user_has_set_keeps_all_others_out() {
    if is_inherited() {
        return;
    }
    assert_eq!(
        shown(&[("PROMPT_COMMAND", ":")]).await,
        "PS0, :",
        "PS0 alone would mark a start and never an end"
    );
    // It expands to nothing, or it would stand in the answer.
    assert_eq!(shown(&[("PS0", "$nothing")]).await, "PS0 set, none");
}

#[tokio::test]
async fn a_variable_of_env_unless_keeps_all_out() {
    let stage = Stage::new();
    let profiles = stage.folder.path().join("profiles");
    std::fs::create_dir_all(&profiles).unwrap();
    let own =
        "name = \"own\"\nforeground = true\nenv_unless = [\"CHOSEN\"]\n[env]\nONE = \"1\"\nTWO = \"2\"\n";
    std::fs::write(profiles.join("own.toml"), own).unwrap();
    for (node, chosen, expected) in
        [("a", None, "1 2"), ("b", Some("CHOSEN"), "- -"), ("c", Some("TWO"), "- mine")]
    {
        let mut spec = stage.spec(node, &["sh"]);
        spec.profile = Some("own".into());
        spec.env.extend(chosen.map(|name| (name.to_string(), "mine".to_string())));
        stage.engine.create(spec).await.unwrap();
        assert_eq!(stage.ask(node, "echo ${ONE:--} ${TWO:--}").await.text, expected);
        stage.stop(node).await;
    }
}
