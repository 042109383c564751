//! Old programs ask the dynamic loader for `libdatawarp.so.0`.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libdatawarp.so.0");
    println!("cargo:rerun-if-changed=build.rs");
}
