//! `show_configurations`: how instances are used. Slurm asks once, at its start, and makes no use of it.

use serde_json::{Value, json};
use wire::control::Objects;

use super::answer::Answer;
use api::control::Control;

pub(super) fn run(control: &Control) -> Answer {
    match control.get::<Objects>("/v1/objects") {
        Ok(objects) => Answer::json(&form(&objects)),
        Err(error) => Answer::failed(error),
    }
}

fn form(objects: &Objects) -> Value {
    let configurations = objects.configurations.iter().map(
        |configuration| json!({ "id": configuration.id, "links": { "instance": configuration.instance } }),
    );
    json!({ "configurations": configurations.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_an_empty_list_in_the_same_form() {
        assert_eq!(form(&Objects::default()), json!({"configurations": []}));
    }
}
