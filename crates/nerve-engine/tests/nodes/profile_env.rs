//! Environment variables of profiles: all of them are set, or none.

use crate::harness::Harness;

const SHOW: &str = r#"echo "PS0${PS0:+ set}, ${PROMPT_COMMAND:-none}""#;

/// Returns true if the variables are inherited, as in a node of nerve, which makes the tests meaningless.
fn is_inherited() -> bool {
    ["PS0", "PROMPT_COMMAND"].iter().any(|name| std::env::var_os(name).is_some())
}

/// Starts a shell with the user's variables; returns the profile variables it sees.
async fn profile_variables(user: &[(&str, &str)]) -> String {
    let harness = Harness::new();
    let mut spec = harness.spec("sh", &["bash", "--norc", "--noprofile"]);
    spec.env.extend(user.iter().map(|(name, value)| (name.to_string(), value.to_string())));
    harness.engine.create(spec).await.unwrap();
    let text = harness.ask("sh", SHOW).await.text;
    harness.stop("sh").await;
    text
}

#[tokio::test]
async fn profile_variables_are_set_together() {
    if is_inherited() {
        return;
    }
    let profile_variables = profile_variables(&[]).await;
    assert!(
        profile_variables.starts_with("PS0 set, ") && profile_variables.contains("133;D"),
        "{profile_variables}"
    );
}

#[tokio::test]
async fn one_user_variable_suppresses_all_profile_variables() {
    if is_inherited() {
        return;
    }
    assert_eq!(
        profile_variables(&[("PROMPT_COMMAND", ":")]).await,
        "PS0, :",
        "PS0 alone would mark the start but never the end"
    );
    // It expands to nothing and thus does not appear in the answer.
    assert_eq!(profile_variables(&[("PS0", "$nothing")]).await, "PS0 set, none");
}

#[tokio::test]
async fn env_unless_suppresses_all_profile_variables() {
    let harness = Harness::new();
    let profiles = harness.folder.path().join("profiles");
    std::fs::create_dir_all(&profiles).unwrap();
    let profile =
        "name = \"own\"\nforeground = true\nenv_unless = [\"CHOSEN\"]\n[env]\nONE = \"1\"\nTWO = \"2\"\n";
    std::fs::write(profiles.join("own.toml"), profile).unwrap();
    for (node, chosen, expected) in
        [("a", None, "1 2"), ("b", Some("CHOSEN"), "- -"), ("c", Some("TWO"), "- mine")]
    {
        let mut spec = harness.spec(node, &["sh"]);
        spec.profile = Some("own".into());
        spec.env.extend(chosen.map(|name| (name.to_string(), "mine".to_string())));
        harness.engine.create(spec).await.unwrap();
        assert_eq!(harness.ask(node, "echo ${ONE:--} ${TWO:--}").await.text, expected);
        harness.stop(node).await;
    }
}
