//! `show_instances`: how large each session is. Slurm sums the bytes by session.

use serde_json::{Value, json};
use wire::control::Objects;

use super::answer::Answer;
use super::show_sessions::is_shown;
use api::control::Control;

pub(super) fn run(control: &Control) -> Answer {
    match control.get::<Objects>("/v1/objects") {
        Ok(objects) => Answer::json(&form(&objects)),
        Err(error) => Answer::failed(error),
    }
}

fn form(objects: &Objects) -> Value {
    let shown = |id| objects.sessions.iter().any(|session| session.id == id && is_shown(session));
    let instances = objects.instances.iter().filter(|instance| shown(instance.session)).map(|instance| {
        json!({
            "id": instance.id,
            "capacity": { "bytes": instance.capacity_bytes, "nodes": instance.nodes },
            "links": { "session": instance.session },
        })
    });
    json!({ "instances": instances.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_an_empty_list_in_the_same_form() {
        assert_eq!(form(&Objects::default()), json!({"instances": []}));
    }
}
