//! Quantizing a model's file by llama.cpp.
//!
//! The call cannot be stopped, tells how far it is only in its log, and ends the process on some files: it belongs into a
//! process of its own.
#![expect(unsafe_code, reason = "this file is a part of the boundary to llama.cpp")]

use std::ffi::{CString, c_char};
use std::path::Path;
use std::ptr;

use llama_cpp_sys_2 as sys;

use super::log::{self, failure};
use crate::error::{Error, Result};

/// The most bytes of a key or a text of the metadata that llama.cpp lets us set, without the zero at its end.
pub(crate) const LONGEST_TEXT: usize = 127;

/// What is to be made of which file.
pub(crate) struct Job<'a> {
    pub(crate) source: &'a Path,
    /// Written from the beginning, and only whole when the call has succeeded.
    pub(crate) output: &'a Path,
    /// llama.cpp's number for the kind of file, `llama_ftype`.
    pub(crate) ftype: u32,
    pub(crate) threads: usize,
    /// Take numbers that have lost precision before.
    pub(crate) requantize: bool,
    /// The mean of the squared activations for each column of a tensor, by its name.
    pub(crate) imatrix: &'a [(String, Vec<f32>)],
    /// Texts for the metadata.
    pub(crate) texts: &'a [(String, String)],
    /// The source says another alignment than the 32 bytes that llama.cpp writes.
    pub(crate) realign: bool,
    /// The most bytes of buffers for one tensor.
    pub(crate) buffer: usize,
}

/// Quantize. The log tells how far it is: `[  12/ 290] blk.0.attn_q.weight - …` when a tensor is done.
pub(crate) fn quantize(job: &Job<'_>) -> Result<()> {
    log::init();
    log::forget();
    let (source, output) = (c_path(job.source)?, c_path(job.output)?);
    let names: Vec<CString> = job.imatrix.iter().map(|(name, _)| c_text(name)).collect::<Result<_>>()?;
    let mut imatrix: Vec<sys::llama_model_imatrix_data> = names
        .iter()
        .zip(job.imatrix)
        .map(|(name, (_, values))| sys::llama_model_imatrix_data {
            name: name.as_ptr(),
            data: values.as_ptr(),
            size: values.len(),
        })
        .collect();
    // The list ends with a name that is null.
    imatrix.push(sys::llama_model_imatrix_data { name: ptr::null(), data: ptr::null(), size: 0 });
    let overrides = overrides(job)?;
    // SAFETY: plain values.
    let mut params = unsafe { sys::llama_model_quantize_default_params() };
    params.ftype = job.ftype;
    params.nthread = i32::try_from(job.threads).unwrap_or(1);
    params.allow_requantize = job.requantize;
    params.max_buf_size = job.buffer;
    if !job.imatrix.is_empty() {
        params.imatrix = imatrix.as_ptr();
    }
    params.kv_overrides = overrides.as_ptr();
    // SAFETY: both paths end in a zero; the lists end as llama.cpp wants and live until it returns.
    let failed =
        unsafe { sys::llama_model_quantize(source.as_ptr(), output.as_ptr(), &raw const params) } != 0;
    if failed { Err(failure("llama.cpp cannot quantize it")) } else { Ok(()) }
}

fn c_path(path: &Path) -> Result<CString> {
    let text = path
        .to_str()
        .ok_or_else(|| Error::failed(format!("the path {} is not valid UTF-8", path.display())))?;
    c_text(text)
}

fn c_text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::failed(format!("`{}` has a zero in it", text.escape_debug())))
}

/// The metadata to set, with an empty key at the end.
fn overrides(job: &Job<'_>) -> Result<Vec<sys::llama_model_kv_override>> {
    let mut all = Vec::new();
    if job.realign {
        let mut one = empty(sys::LLAMA_KV_OVERRIDE_TYPE_INT);
        put(&mut one.key, "general.alignment")?;
        one.__bindgen_anon_1.val_i64 = 32;
        all.push(one);
    }
    for (key, text) in job.texts {
        let mut one = empty(sys::LLAMA_KV_OVERRIDE_TYPE_STR);
        put(&mut one.key, key)?;
        let mut value = [0; LONGEST_TEXT + 1];
        put(&mut value, text)?;
        one.__bindgen_anon_1.val_str = value;
        all.push(one);
    }
    all.push(empty(sys::LLAMA_KV_OVERRIDE_TYPE_INT));
    Ok(all)
}

fn empty(tag: sys::llama_model_kv_override_type) -> sys::llama_model_kv_override {
    sys::llama_model_kv_override {
        tag,
        key: [0; LONGEST_TEXT + 1],
        __bindgen_anon_1: sys::llama_model_kv_override__bindgen_ty_1 { val_str: [0; LONGEST_TEXT + 1] },
    }
}

/// Copy a text in front of the zeros.
fn put(field: &mut [c_char; LONGEST_TEXT + 1], text: &str) -> Result<()> {
    if text.len() > LONGEST_TEXT || text.contains('\0') {
        return Err(Error::failed(format!("`{}` is too long for the file's metadata", text.escape_debug())));
    }
    for (to, from) in field.iter_mut().zip(text.bytes()) {
        *to = c_char::from_ne_bytes([from]);
    }
    Ok(())
}
