//! Job scripts come from users: whatever they hold, a script is understood or each mistake has a line that it is on.

#![no_main]

use libfuzzer_sys::fuzz_target;
use model::directive::parse;
use model::symbols::Symbols;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.split('\n').count();
    match parse(&text, &Symbols::default()) {
        Ok(script) => {
            assert!(script.directives.iter().all(|found| (1..=lines).contains(&(found.line as usize))))
        }
        Err(errors) => {
            assert!(!errors.0.is_empty(), "a refusal without a reason");
            for error in &errors.0 {
                assert!((1..=lines).contains(&(error.line as usize)) && error.column > 0, "{error:?}");
                assert!(!error.message.contains('\n'), "{error:?} is one line");
            }
        }
    }
});
