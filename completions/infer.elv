
use builtin;
use str;

set edit:completion:arg-completer[infer] = {|@words|
    fn spaces {|n|
        builtin:repeat $n ' ' | str:join ''
    }
    fn cand {|text desc|
        edit:complex-candidate $text &display=$text' '(spaces (- 14 (wcswidth $text)))$desc
    }
    var command = 'infer'
    for word $words[1..-1] {
        if (str:has-prefix $word '-') {
            break
        }
        set command = $command';'$word
    }
    var completions = [
        &'infer'= {
            cand -q 'Only errors and what was asked for'
            cand --quiet 'Only errors and what was asked for'
            cand -v 'More on stderr, the log of llama.cpp included'
            cand --verbose 'More on stderr, the log of llama.cpp included'
            cand -V 'Print the version; with -v also the llama.cpp build, its CPU features, backends and devices'
            cand --version 'Print the version; with -v also the llama.cpp build, its CPU features, backends and devices'
            cand -h 'Print help'
            cand --help 'Print help'
            cand run 'Answer one prompt'
            cand chat 'Hold a conversation'
            cand show 'Show what is in a model file'
            cand completions 'Print a completion script for a shell'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'infer;run'= {
            cand --gpu-layers 'Layers on the GPU: a number, `auto` (what fits) or `all`'
            cand --ngl 'Layers on the GPU: a number, `auto` (what fits) or `all`'
            cand --device 'Use this device and fail if it isn''t there, such as `cuda`, `cuda1` or `cpu`'
            cand -t 'Threads [default: the cores that this process may use]'
            cand --threads 'Threads [default: the cores that this process may use]'
            cand -c 'Context, tokens [default: what fits, at most 8192 or the model''s own]'
            cand --ctx 'Context, tokens [default: what fits, at most 8192 or the model''s own]'
            cand --kv 'Type of the KV cache'
            cand --temp 'Temperature; 0 is greedy [default: 0.8]'
            cand --top-k 'Choose among the N most likely tokens, 0 for all [default: 40]'
            cand --top-p 'Choose among the fewest tokens with this probability together [default: 0.95]'
            cand --min-p 'Drop tokens less likely than this share of the most likely one [default: 0.05]'
            cand --repeat-penalty 'Divide the logits of the last 64 tokens, the prompt''s too, by this [default: 1.0]'
            cand --seed 'Seed of the random numbers [default: random]'
            cand --preset 'Temperature 0.2, 0.7 or 1.0 with a top-p that suits it'
            cand -s 'System prompt'
            cand --system 'System prompt'
            cand --template 'Chat template in place of the model''s own: a name (chatml, …) or a Jinja file'
            cand --think 'Let a reasoning model think first; thoughts never reach stdout'
            cand -n 'Most tokens to generate [default: until the end of the turn]'
            cand --max-tokens 'Most tokens to generate [default: until the end of the turn]'
            cand --stop 'Stop before this text (repeatable)'
            cand -f 'Add a file to the prompt (repeatable)'
            cand --file 'Add a file to the prompt (repeatable)'
            cand --overflow 'What to do when the window is full [default: stop]'
            cand --stats 'Print statistics on stderr'
            cand --raw 'Continue the text as it is, without the chat template'
            cand --json 'Print one JSON object with text, thinking, counts, times and settings'
            cand -q 'Only errors and what was asked for'
            cand --quiet 'Only errors and what was asked for'
            cand -v 'More on stderr, the log of llama.cpp included'
            cand --verbose 'More on stderr, the log of llama.cpp included'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'infer;chat'= {
            cand --gpu-layers 'Layers on the GPU: a number, `auto` (what fits) or `all`'
            cand --ngl 'Layers on the GPU: a number, `auto` (what fits) or `all`'
            cand --device 'Use this device and fail if it isn''t there, such as `cuda`, `cuda1` or `cpu`'
            cand -t 'Threads [default: the cores that this process may use]'
            cand --threads 'Threads [default: the cores that this process may use]'
            cand -c 'Context, tokens [default: what fits, at most 8192 or the model''s own]'
            cand --ctx 'Context, tokens [default: what fits, at most 8192 or the model''s own]'
            cand --kv 'Type of the KV cache'
            cand --temp 'Temperature; 0 is greedy [default: 0.8]'
            cand --top-k 'Choose among the N most likely tokens, 0 for all [default: 40]'
            cand --top-p 'Choose among the fewest tokens with this probability together [default: 0.95]'
            cand --min-p 'Drop tokens less likely than this share of the most likely one [default: 0.05]'
            cand --repeat-penalty 'Divide the logits of the last 64 tokens, the prompt''s too, by this [default: 1.0]'
            cand --seed 'Seed of the random numbers [default: random]'
            cand --preset 'Temperature 0.2, 0.7 or 1.0 with a top-p that suits it'
            cand -s 'System prompt'
            cand --system 'System prompt'
            cand --template 'Chat template in place of the model''s own: a name (chatml, …) or a Jinja file'
            cand --think 'Let a reasoning model think first; thoughts never reach stdout'
            cand -n 'Most tokens to generate [default: until the end of the turn]'
            cand --max-tokens 'Most tokens to generate [default: until the end of the turn]'
            cand --stop 'Stop before this text (repeatable)'
            cand --overflow 'What to do when the window is full [default: rebuild]'
            cand --stats 'Print statistics on stderr'
            cand -q 'Only errors and what was asked for'
            cand --quiet 'Only errors and what was asked for'
            cand -v 'More on stderr, the log of llama.cpp included'
            cand --verbose 'More on stderr, the log of llama.cpp included'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'infer;show'= {
            cand --json 'Print one JSON object'
            cand --template 'Print the chat template'
            cand -q 'Only errors and what was asked for'
            cand --quiet 'Only errors and what was asked for'
            cand -v 'More on stderr, the log of llama.cpp included'
            cand --verbose 'More on stderr, the log of llama.cpp included'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'infer;completions'= {
            cand -q 'Only errors and what was asked for'
            cand --quiet 'Only errors and what was asked for'
            cand -v 'More on stderr, the log of llama.cpp included'
            cand --verbose 'More on stderr, the log of llama.cpp included'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'infer;help'= {
            cand run 'Answer one prompt'
            cand chat 'Hold a conversation'
            cand show 'Show what is in a model file'
            cand completions 'Print a completion script for a shell'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'infer;help;run'= {
        }
        &'infer;help;chat'= {
        }
        &'infer;help;show'= {
        }
        &'infer;help;completions'= {
        }
        &'infer;help;help'= {
        }
    ]
    $completions[$command]
}
