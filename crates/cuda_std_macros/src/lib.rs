//! The `#[kernel]` attribute of `cuda_std`.

use proc_macro::TokenStream;
use quote::quote;
use syn::{ItemFn, ReturnType, parse_macro_input};

/// Makes a function an entry point of the GPU.
///
/// On the device the function gets the kernel calling convention and its own name as the symbol in
/// the PTX. On the host it stays the plain function that it is, so that the same source runs on the
/// emulator.
///
/// A kernel is `pub unsafe`, returns nothing and has neither generics nor a calling convention of
/// its own; anything else is a compile error that says so.
#[proc_macro_attribute]
pub fn kernel(args: TokenStream, input: TokenStream) -> TokenStream {
    let function = parse_macro_input!(input as ItemFn);
    if !args.is_empty() {
        return refuse(&function, "#[kernel] takes no arguments");
    }
    expand(&function)
}

fn expand(function: &ItemFn) -> TokenStream {
    let ItemFn { attrs, vis, sig, block } = function;
    if sig.unsafety.is_none() {
        return refuse(
            function,
            "a kernel is an `unsafe fn`: its launch is a promise about pointers",
        );
    }
    if !sig.generics.params.is_empty() {
        return refuse(function, "a kernel has no generics: write one entry for each type");
    }
    if !matches!(sig.output, ReturnType::Default) {
        return refuse(function, "a kernel returns nothing: results go through pointers");
    }
    if sig.abi.is_some() || sig.asyncness.is_some() || sig.constness.is_some() {
        return refuse(function, "a kernel has no calling convention of its own");
    }
    let (name, inputs) = (&sig.ident, &sig.inputs);
    quote! {
        #[cfg(target_arch = "nvptx64")]
        #(#attrs)*
        #[unsafe(no_mangle)]
        #vis unsafe extern "ptx-kernel" fn #name(#inputs) #block

        #[cfg(not(target_arch = "nvptx64"))]
        #(#attrs)*
        #vis unsafe fn #name(#inputs) #block

        // An entry is reached through its symbol, whether the host calls it or not.
        #[cfg(not(target_arch = "nvptx64"))]
        const _: () = {
            let _ = #name;
        };
    }
    .into()
}

fn refuse(function: &ItemFn, message: &str) -> TokenStream {
    syn::Error::new_spanned(&function.sig, message).to_compile_error().into()
}
