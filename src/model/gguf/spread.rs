//! Which weights belong together: what a device takes, it takes layer by layer.

use super::{Header, layer_of};

/// Bytes of the weights, by where they are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spread {
    /// What turns tokens into embeddings. llama.cpp keeps it on the CPU.
    pub(crate) input: u64,
    /// Layer by layer.
    pub(crate) layers: Vec<u64>,
    /// What turns embeddings into tokens. Where that is the input's once more, a GPU needs its own copy.
    pub(crate) output: u64,
    pub(crate) copied: u64,
}

impl Header {
    pub(super) fn spread(&self) -> Spread {
        let mut layers = vec![0_u64; self.layer_count()];
        let (mut input, mut output, mut embedding, mut tied) = (0_u64, 0_u64, 0, true);
        for tensor in &self.tensors {
            let sum =
                match layer_of(&tensor.name).and_then(|layer| layers.get_mut(usize::try_from(layer).ok()?)) {
                    Some(layer) => layer,
                    None if is_input(&tensor.name) => &mut input,
                    None => &mut output,
                };
            *sum = sum.saturating_add(tensor.bytes);
            match tensor.name.as_str() {
                "token_embd.weight" => embedding = tensor.bytes,
                "output.weight" => tied = false,
                _ => {}
            }
        }
        Spread { input, layers, output, copied: if tied { embedding } else { 0 } }
    }
}

fn is_input(name: &str) -> bool {
    ["token_", "position_", "per_layer_token_"].iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::gguf::tiny_gguf::Tiny;

    #[test]
    fn a_layer_is_known_by_its_number() {
        for (name, layer) in [
            ("blk.0.attn_q.weight", Some(0)),
            ("blk.70.x", Some(70)),
            ("blk.7", None),
            ("blk.x.weight", None),
            ("blk.-1.weight", None),
            ("a.blk.1.weight", None),
        ] {
            assert_eq!(layer_of(name), layer, "{name}");
        }
    }

    #[test]
    fn every_weight_is_in_one_place() {
        let header = Header::from_bytes(&Tiny::llama().bytes()).unwrap();
        let spread = header.spread();
        let embedding = 268 * 64 * 4;
        assert_eq!((spread.input, spread.output, spread.copied), (embedding, 64 * 4, embedding));
        assert_eq!(spread.layers.len(), 2);
        assert_eq!(spread.layers[0], spread.layers[1]);
        let all = spread.input + spread.output + spread.layers.iter().sum::<u64>();
        assert_eq!(all, header.shape().tensor_bytes);
        let untied = Tiny::llama().with_zeros("output.weight", &[64, 268]);
        let spread = Header::from_bytes(&untied.bytes()).unwrap().spread();
        assert_eq!((spread.output, spread.copied), (64 * 4 + embedding, 0));
    }
}
