//! How what is sent gets a form on disk. The compiler names a field or a word that one of both lacks.

use std::path::PathBuf;

use model::buffer::BufferRef;
use model::directive::{Behaviour, FragmentBehaviour, MountBehaviour};
use model::phase::{AccessMode, Coherence, Direction, Drain, Function, Phase, StageKind, StageState};
use model::{FragmentIndex, Ino, InstanceId, NodeName, Token};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What has a form on disk.
pub trait OnDisk: Sized {
    /// The form.
    type Form: Serialize + DeserializeOwned;

    /// As it is written.
    fn to_form(&self) -> Self::Form;

    /// As it was written.
    fn from_form(form: Self::Form) -> Self;
}

/// For a field of what is its own form otherwise: `#[serde(with = "kept::form")]`.
pub mod form {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::OnDisk;

    /// Writes the form.
    ///
    /// # Errors
    /// The serialiser's.
    pub fn serialize<T: OnDisk, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        value.to_form().serialize(serializer)
    }

    /// Reads it.
    ///
    /// # Errors
    /// It is another.
    pub fn deserialize<'de, T: OnDisk, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        T::Form::deserialize(deserializer).map(T::from_form)
    }
}

/// Declares the form of what has these fields, or is one of these words.
macro_rules! form {
    ($(#[$outer:meta])* struct $form:ident of $there:ty { $($(#[$meta:meta])* $field:ident: $type:ty,)* }) => {
        #[derive(serde::Serialize, serde::Deserialize)]
        $(#[$outer])*
        pub struct $form { $($(#[$meta])* $field: <$type as crate::OnDisk>::Form,)* }

        impl crate::OnDisk for $there {
            type Form = $form;

            fn to_form(&self) -> $form {
                let Self { $($field,)* } = self;
                $form { $($field: crate::OnDisk::to_form($field),)* }
            }

            fn from_form(form: $form) -> Self {
                Self { $($field: crate::OnDisk::from_form(form.$field),)* }
            }
        }
    };
    ($(#[$outer:meta])* enum $form:ident of $there:ty { $($(#[$meta:meta])* $word:ident,)* }) => {
        #[derive(serde::Serialize, serde::Deserialize)]
        $(#[$outer])*
        pub enum $form { $($(#[$meta])* $word,)* }

        impl crate::OnDisk for $there {
            type Form = $form;

            fn to_form(&self) -> $form {
                match self {
                    $(Self::$word => $form::$word,)*
                }
            }

            fn from_form(form: $form) -> Self {
                match form {
                    $($form::$word => Self::$word,)*
                }
            }
        }
    };
}

/// Says of types that are no other crate's messages that they are their own form.
#[macro_export]
macro_rules! own_forms {
    ($($type:ty),*) => {
        $(impl $crate::OnDisk for $type {
            type Form = $type;

            fn to_form(&self) -> $type {
                Clone::clone(self)
            }

            fn from_form(form: $type) -> $type {
                form
            }
        })*
    };
}

own_forms!(bool, i32, i64, u32, u64, String, PathBuf, FragmentIndex, Ino, InstanceId, NodeName, Token);
own_forms!(
    AccessMode,
    Behaviour,
    BufferRef,
    Coherence,
    Direction,
    Drain,
    FragmentBehaviour,
    Function,
    MountBehaviour,
    Phase,
    StageKind,
    StageState
);

impl<T: OnDisk> OnDisk for Vec<T> {
    type Form = Vec<T::Form>;

    fn to_form(&self) -> Self::Form {
        self.iter().map(T::to_form).collect()
    }

    fn from_form(form: Self::Form) -> Self {
        form.into_iter().map(T::from_form).collect()
    }
}

impl<T: OnDisk> OnDisk for Option<T> {
    type Form = Option<T::Form>;

    fn to_form(&self) -> Self::Form {
        self.as_ref().map(T::to_form)
    }

    fn from_form(form: Self::Form) -> Self {
        form.map(T::from_form)
    }
}

impl<A: OnDisk, B: OnDisk> OnDisk for (A, B) {
    type Form = (A::Form, B::Form);

    fn to_form(&self) -> Self::Form {
        (self.0.to_form(), self.1.to_form())
    }

    fn from_form((a, b): Self::Form) -> Self {
        (A::from_form(a), B::from_form(b))
    }
}
