//! Licences: every crate that we link is under one that `deny.toml` allows.

use serde_json::Value;

/// The licences that `deny.toml` allows: the strings between `allow = [` and `]` of its table `[licenses]`.
pub fn allowed(deny: &str) -> Vec<String> {
    let table = deny.split("[licenses]").nth(1).unwrap_or_default();
    let list = table.split("allow = [").nth(1).and_then(|rest| rest.split(']').next()).unwrap_or_default();
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The packages in what `cargo metadata` says that are under none of them.
pub fn refused(metadata: &Value, allowed: &[String]) -> Vec<String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let refused = packages.filter(|package| !may(package["license"].as_str().unwrap_or_default(), allowed));
    refused.map(|package| format!("{} is under {}", package["name"], package["license"])).collect()
}

/// Whether an SPDX expression can be met. Old manifests write `/` for `OR`.
fn may(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    any(&mut words.as_slice(), allowed)
}

fn any(words: &mut &[&str], allowed: &[String]) -> bool {
    let mut met = all(words, allowed);
    while let ["OR", rest @ ..] = *words {
        *words = rest;
        met |= all(words, allowed);
    }
    met
}

fn all(words: &mut &[&str], allowed: &[String]) -> bool {
    let mut met = one(words, allowed);
    while let ["AND", rest @ ..] = *words {
        *words = rest;
        met &= one(words, allowed);
    }
    met
}

fn one(words: &mut &[&str], allowed: &[String]) -> bool {
    let (met, rest) = match *words {
        ["(", inner @ ..] => {
            let mut inner = inner;
            let met = any(&mut inner, allowed);
            (met, inner.get(1..).unwrap_or_default())
        }
        [name, "WITH", exception, rest @ ..] => (allowed.contains(&format!("{name} WITH {exception}")), rest),
        [name, rest @ ..] => (allowed.iter().any(|known| known == name), rest),
        [] => (false, &[][..]),
    };
    *words = rest;
    met
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_licence_that_is_not_allowed_is_named() {
        let allowed = allowed("[advisories]\n[licenses]\nallow = [\n  \"MIT\",\n  \"ISC\",\n]\n[bans]\n");
        assert_eq!(allowed, ["MIT", "ISC"]);
        let metadata = json!({"packages": [
            {"name": "good", "license": "MIT"},
            {"name": "bad", "license": "GPL-3.0-only"},
            {"name": "none", "license": null},
        ]});
        assert_eq!(refused(&metadata, &allowed).len(), 2);
    }

    #[test]
    fn expressions_are_read_as_spdx_has_them() {
        let allowed = ["MIT".to_owned(), "Zlib".to_owned()];
        for good in ["MIT OR GPL-3.0", "GPL-3.0/MIT", "(GPL-3.0 OR MIT) AND Zlib", "MIT AND Zlib OR GPL-3.0"]
        {
            assert!(may(good, &allowed), "{good}");
        }
        for bad in ["MIT AND GPL-3.0", "(MIT OR Zlib) AND GPL-3.0", "MIT WITH GCC-exception", ""] {
            assert!(!may(bad, &allowed), "{bad}");
        }
    }
}
