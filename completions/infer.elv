
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
            cand -v 'More on stderr; `-vv` also the log of llama.cpp'
            cand --verbose 'More on stderr; `-vv` also the log of llama.cpp'
            cand -V 'Print the version; with -v also the llama.cpp build, its CPU features, backends and devices'
            cand --version 'Print the version; with -v also the llama.cpp build, its CPU features, backends and devices'
            cand -h 'Print help'
            cand --help 'Print help'
            cand run 'Answer one prompt'
            cand chat 'Hold a conversation'
            cand pull 'Download a model from the hub, or go on with a download'
            cand list 'List the models on this machine, and downloads that did not end'
            cand ls 'List the models on this machine, and downloads that did not end'
            cand show 'Show what is in a model, and whether one of the hub would fit here'
            cand fit 'List the models that this machine can run, and how fast at most'
            cand rm 'Remove models and partial downloads'
            cand remove 'Remove models and partial downloads'
            cand cache 'List or clear what was kept of prompts on disk'
            cand doctor 'Check this machine and this build, and say what to do about what is not right'
            cand bench 'Measure how fast models are here, and how near to what this machine allows'
            cand tune 'Measure which settings are fastest here for a model, and remember them'
            cand quantize 'Make a smaller INT8 or INT4 model of a file, and measure what was lost'
            cand quantize-worker 'The process that quantizes, started by `quantize`'
            cand completions 'Print a completion script for a shell'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'infer;run'= {
            cand --gpu-layers 'Layers on the GPU: a number, `auto` (what fits) or `all`'
            cand --ngl 'Layers on the GPU: a number, `auto` (what fits) or `all`'
            cand --device 'Use this device and fail if it isn''t there, such as `cuda`, `cuda1` or `cpu`'
            cand -t 'Threads [default: the cores that this process may use]'
            cand --threads 'Threads [default: the cores that this process may use]'
            cand -c 'Context, tokens; `8k` is 8192 [default: what fits, at most 8192 or the model''s own]'
            cand --ctx 'Context, tokens; `8k` is 8192 [default: what fits, at most 8192 or the model''s own]'
            cand --kv 'Type of the KV cache; `q8_0` takes half the memory of `f16`, `q4_0` less than a third'
            cand --keep 'First tokens that stay when the window is full, rounded up to whole turns that half of it holds; the system prompt always stays'
            cand --cache-size 'The most that this cache may take, such as `2GB`; 0 for no cache'
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
            cand --metrics-file 'Append counts and times of each request to this file, as a line of JSON without any text of it'
            cand -f 'Add a file to the prompt (repeatable)'
            cand --file 'Add a file to the prompt (repeatable)'
            cand --overflow 'What to do when the window is full [default: stop]'
            cand -y 'Download the model without asking when it is not here'
            cand --yes 'Download the model without asking when it is not here'
            cand --no-cache 'Neither use nor fill the cache of prompts on disk'
            cand --stats 'Print statistics on stderr'
            cand --raw 'Continue the text as it is, without the chat template'
            cand --json 'Print one JSON object with text, thinking, counts, times and settings'
            cand -q 'Only errors and what was asked for'
            cand --quiet 'Only errors and what was asked for'
            cand -v 'More on stderr; `-vv` also the log of llama.cpp'
            cand --verbose 'More on stderr; `-vv` also the log of llama.cpp'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'infer;chat'= {
            cand --gpu-layers 'Layers on the GPU: a number, `auto` (what fits) or `all`'
            cand --ngl 'Layers on the GPU: a number, `auto` (what fits) or `all`'
            cand --device 'Use this device and fail if it isn''t there, such as `cuda`, `cuda1` or `cpu`'
            cand -t 'Threads [default: the cores that this process may use]'
            cand --threads 'Threads [default: the cores that this process may use]'
            cand -c 'Context, tokens; `8k` is 8192 [default: what fits, at most 8192 or the model''s own]'
            cand --ctx 'Context, tokens; `8k` is 8192 [default: what fits, at most 8192 or the model''s own]'
            cand --kv 'Type of the KV cache; `q8_0` takes half the memory of `f16`, `q4_0` less than a third'
            cand --keep 'First tokens that stay when the window is full, rounded up to whole turns that half of it holds; the system prompt always stays'
            cand --cache-size 'The most that this cache may take, such as `2GB`; 0 for no cache'
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
            cand --metrics-file 'Append counts and times of each request to this file, as a line of JSON without any text of it'
            cand --overflow 'What to do when the window is full [default: slide]'
            cand --session 'Keep the conversation under this name, or go on with the one that is kept there'
            cand --remove-session 'Remove a session; on a terminal it asks first, unless `--yes` is given'
            cand -y 'Download the model without asking when it is not here'
            cand --yes 'Download the model without asking when it is not here'
            cand --no-cache 'Neither use nor fill the cache of prompts on disk'
            cand --stats 'Print statistics on stderr'
            cand --continue 'Go on with the session used last'
            cand --list-sessions 'List the sessions'
            cand --json 'With `--list-sessions`, print one JSON object'
            cand -q 'Only errors and what was asked for'
            cand --quiet 'Only errors and what was asked for'
            cand -v 'More on stderr; `-vv` also the log of llama.cpp'
            cand --verbose 'More on stderr; `-vv` also the log of llama.cpp'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'infer;pull'= {
            cand --connections 'Connections per file'
            cand --retries 'Attempts in a row that may bring nothing before it gives up'
            cand --timeout 'How long a server may be silent before the connection is opened anew'
            cand --max-size 'Refuse a model larger than this, such as `8GB` or `500MB`'
            cand --dry-run 'Say what would be fetched, and fetch nothing'
            cand --json 'Print events as lines of JSON'
            cand -q 'Only errors and what was asked for'
            cand --quiet 'Only errors and what was asked for'
            cand -v 'More on stderr; `-vv` also the log of llama.cpp'
            cand --verbose 'More on stderr; `-vv` also the log of llama.cpp'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'infer;list'= {
            cand -a 'Also what no name refers to: loose files of the cache, and downloads of other programs'
            cand --all 'Also what no name refers to: loose files of the cache, and downloads of other programs'
            cand --names 'The names that `infer pull` knows, instead of what is here'
            cand --json 'Print one JSON object'
            cand -q 'Only errors and what was asked for'
            cand --quiet 'Only errors and what was asked for'
            cand -v 'More on stderr; `-vv` also the log of llama.cpp'
            cand --verbose 'More on stderr; `-vv` also the log of llama.cpp'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'infer;ls'= {
            cand -a 'Also what no name refers to: loose files of the cache, and downloads of other programs'
            cand --all 'Also what no name refers to: loose files of the cache, and downloads of other programs'
            cand --names 'The names that `infer pull` knows, instead of what is here'
            cand --json 'Print one JSON object'
            cand -q 'Only errors and what was asked for'
            cand --quiet 'Only errors and what was asked for'
            cand -v 'More on stderr; `-vv` also the log of llama.cpp'
            cand --verbose 'More on stderr; `-vv` also the log of llama.cpp'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'infer;show'= {
            cand --json 'Print one JSON object'
            cand --template 'Print the chat template'
            cand -q 'Only errors and what was asked for'
            cand --quiet 'Only errors and what was asked for'
            cand -v 'More on stderr; `-vv` also the log of llama.cpp'
            cand --verbose 'More on stderr; `-vv` also the log of llama.cpp'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'infer;fit'= {
            cand -c 'Context that has to fit, tokens; `8k` is 8192 [default: what fits, at most 8192 or the model''s own]'
            cand --ctx 'Context that has to fit, tokens; `8k` is 8192 [default: what fits, at most 8192 or the model''s own]'
            cand --kv 'Type of the KV cache; `q8_0` takes half the memory of `f16`, `q4_0` less than a third'
            cand --device 'Use this device only, such as `cuda`, `cuda1` or `cpu`'
            cand -t 'Threads [default: the cores that this process may use]'
            cand --threads 'Threads [default: the cores that this process may use]'
            cand -a 'Also those that do not fit, and why'
            cand --all 'Also those that do not fit, and why'
            cand --json 'Print one JSON object'
            cand -q 'Only errors and what was asked for'
            cand --quiet 'Only errors and what was asked for'
            cand -v 'More on stderr; `-vv` also the log of llama.cpp'
            cand --verbose 'More on stderr; `-vv` also the log of llama.cpp'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'infer;rm'= {
            cand --dry-run 'Say what would be removed, and remove nothing'
            cand --all 'Everything that is here of the repositories, other programs'' files too'
            cand -y 'Do not ask'
            cand --yes 'Do not ask'
            cand --json 'Print one JSON object'
            cand -q 'Only errors and what was asked for'
            cand --quiet 'Only errors and what was asked for'
            cand -v 'More on stderr; `-vv` also the log of llama.cpp'
            cand --verbose 'More on stderr; `-vv` also the log of llama.cpp'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'infer;remove'= {
            cand --dry-run 'Say what would be removed, and remove nothing'
            cand --all 'Everything that is here of the repositories, other programs'' files too'
            cand -y 'Do not ask'
            cand --yes 'Do not ask'
            cand --json 'Print one JSON object'
            cand -q 'Only errors and what was asked for'
            cand --quiet 'Only errors and what was asked for'
            cand -v 'More on stderr; `-vv` also the log of llama.cpp'
            cand --verbose 'More on stderr; `-vv` also the log of llama.cpp'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'infer;cache'= {
            cand -q 'Only errors and what was asked for'
            cand --quiet 'Only errors and what was asked for'
            cand -v 'More on stderr; `-vv` also the log of llama.cpp'
            cand --verbose 'More on stderr; `-vv` also the log of llama.cpp'
            cand -h 'Print help'
            cand --help 'Print help'
            cand list 'List what is kept, what was used last first'
            cand ls 'List what is kept, what was used last first'
            cand clear 'Remove all of it'
        }
        &'infer;cache;list'= {
            cand --json 'Print one JSON object'
            cand -q 'Only errors and what was asked for'
            cand --quiet 'Only errors and what was asked for'
            cand -v 'More on stderr; `-vv` also the log of llama.cpp'
            cand --verbose 'More on stderr; `-vv` also the log of llama.cpp'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'infer;cache;ls'= {
            cand --json 'Print one JSON object'
            cand -q 'Only errors and what was asked for'
            cand --quiet 'Only errors and what was asked for'
            cand -v 'More on stderr; `-vv` also the log of llama.cpp'
            cand --verbose 'More on stderr; `-vv` also the log of llama.cpp'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'infer;cache;clear'= {
            cand -y 'Do not ask'
            cand --yes 'Do not ask'
            cand --json 'Print one JSON object'
            cand -q 'Only errors and what was asked for'
            cand --quiet 'Only errors and what was asked for'
            cand -v 'More on stderr; `-vv` also the log of llama.cpp'
            cand --verbose 'More on stderr; `-vv` also the log of llama.cpp'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'infer;doctor'= {
            cand --offline 'Do not ask the hub; `HF_HUB_OFFLINE=1` does the same'
            cand --json 'Print one JSON object'
            cand -q 'Only errors and what was asked for'
            cand --quiet 'Only errors and what was asked for'
            cand -v 'More on stderr; `-vv` also the log of llama.cpp'
            cand --verbose 'More on stderr; `-vv` also the log of llama.cpp'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'infer;bench'= {
            cand -p 'Prompts to evaluate, tokens; 0 for none'
            cand --prompt 'Prompts to evaluate, tokens; 0 for none'
            cand -g 'Tokens to generate; 0 for none'
            cand -n 'Tokens to generate; 0 for none'
            cand --gen 'Tokens to generate; 0 for none'
            cand -d 'Tokens in the cache before each test [default: 0,2048, as far as the model''s context reaches]'
            cand --depth 'Tokens in the cache before each test [default: 0,2048, as far as the model''s context reaches]'
            cand -a 'A whole answer: tokens of the prompt and of the answer (repeatable); `0+0` for none'
            cand --answer 'A whole answer: tokens of the prompt and of the answer (repeatable); `0+0` for none'
            cand -r 'Repetitions of each test'
            cand --repetitions 'Repetitions of each test'
            cand -t 'Threads [default: the cores that this process may use]'
            cand --threads 'Threads [default: the cores that this process may use]'
            cand -b 'Tokens of one evaluation [default: 512, or the micro-batch if that is larger]'
            cand --batch 'Tokens of one evaluation [default: 512, or the micro-batch if that is larger]'
            cand -u 'Tokens of a micro-batch, at most those of one evaluation [default: 512]'
            cand --ubatch 'Tokens of a micro-batch, at most those of one evaluation [default: 512]'
            cand --kv 'Types of the KV cache'
            cand --flash 'Flash attention'
            cand --gpu-layers 'Layers on the GPU: numbers, `auto` (what fits) or `all`'
            cand --ngl 'Layers on the GPU: numbers, `auto` (what fits) or `all`'
            cand --device 'Use this device and fail if it isn''t there, such as `cuda`, `cuda1` or `cpu`'
            cand -o 'Form of the rows on stdout; `json`, `jsonl`, `csv` and `md` have llama-bench''s names'
            cand --output 'Form of the rows on stdout; `json`, `jsonl`, `csv` and `md` have llama-bench''s names'
            cand --baseline 'Compare with the rows of an earlier `-o json` or `-o jsonl`, of llama-bench''s too'
            cand --fail-slower 'Exit with 1 when a row is slower than the baseline by more than this many percent'
            cand --plot 'Draw tokens per second over depth into this file'
            cand -y 'Download a model without asking when it is not here'
            cand --yes 'Download a model without asking when it is not here'
            cand --json 'The same as `-o json`'
            cand -q 'Only errors and what was asked for'
            cand --quiet 'Only errors and what was asked for'
            cand -v 'More on stderr; `-vv` also the log of llama.cpp'
            cand --verbose 'More on stderr; `-vv` also the log of llama.cpp'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'infer;tune'= {
            cand --seconds 'About how long to measure; with less time prompts are shorter and caches less deep'
            cand --device 'Use this device and fail if it isn''t there, such as `cuda`, `cuda1` or `cpu`'
            cand --clear 'Forget what is remembered for models like this one, or without a model all of it'
            cand --dry-run 'Measure and show, but do not remember'
            cand -y 'Download the model without asking when it is not here'
            cand --yes 'Download the model without asking when it is not here'
            cand --json 'Print one JSON object'
            cand -q 'Only errors and what was asked for'
            cand --quiet 'Only errors and what was asked for'
            cand -v 'More on stderr; `-vv` also the log of llama.cpp'
            cand --verbose 'More on stderr; `-vv` also the log of llama.cpp'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'infer;quantize'= {
            cand --to 'The type to make: int4, int8, or one of those below'
            cand -o 'Write this file'
            cand --output 'Write this file'
            cand --as 'Keep it under this name, for `infer run NAME` [default: made from the source''s name]'
            cand --imatrix 'Use an importance matrix, a file of llama.cpp''s or of `--calibrate`'
            cand --calibrate 'Compute an importance matrix from this text first, and keep it beside the result'
            cand -t 'Threads [default: the cores that this process may use]'
            cand --threads 'Threads [default: the cores that this process may use]'
            cand --check-text 'Measure on this text in place of the one inside the program'
            cand --fail-below 'Exit with 1 when the verdict is worse'
            cand --compare 'Only measure: how the predictions of B differ from those of A; without B, the perplexity of A'
            cand --allow-requantize 'Take a source that is quantized already'
            cand --dry-run 'Show the plan, and make nothing'
            cand --no-check 'Do not measure the result'
            cand -y 'Download the source, or replace the result, without asking'
            cand --yes 'Download the source, or replace the result, without asking'
            cand --json 'Print one JSON object'
            cand -q 'Only errors and what was asked for'
            cand --quiet 'Only errors and what was asked for'
            cand -v 'More on stderr; `-vv` also the log of llama.cpp'
            cand --verbose 'More on stderr; `-vv` also the log of llama.cpp'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'infer;quantize-worker'= {
            cand --json 'json'
            cand -q 'Only errors and what was asked for'
            cand --quiet 'Only errors and what was asked for'
            cand -v 'More on stderr; `-vv` also the log of llama.cpp'
            cand --verbose 'More on stderr; `-vv` also the log of llama.cpp'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'infer;completions'= {
            cand -q 'Only errors and what was asked for'
            cand --quiet 'Only errors and what was asked for'
            cand -v 'More on stderr; `-vv` also the log of llama.cpp'
            cand --verbose 'More on stderr; `-vv` also the log of llama.cpp'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'infer;help'= {
            cand run 'Answer one prompt'
            cand chat 'Hold a conversation'
            cand pull 'Download a model from the hub, or go on with a download'
            cand list 'List the models on this machine, and downloads that did not end'
            cand show 'Show what is in a model, and whether one of the hub would fit here'
            cand fit 'List the models that this machine can run, and how fast at most'
            cand rm 'Remove models and partial downloads'
            cand cache 'List or clear what was kept of prompts on disk'
            cand doctor 'Check this machine and this build, and say what to do about what is not right'
            cand bench 'Measure how fast models are here, and how near to what this machine allows'
            cand tune 'Measure which settings are fastest here for a model, and remember them'
            cand quantize 'Make a smaller INT8 or INT4 model of a file, and measure what was lost'
            cand quantize-worker 'The process that quantizes, started by `quantize`'
            cand completions 'Print a completion script for a shell'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'infer;help;run'= {
        }
        &'infer;help;chat'= {
        }
        &'infer;help;pull'= {
        }
        &'infer;help;list'= {
        }
        &'infer;help;show'= {
        }
        &'infer;help;fit'= {
        }
        &'infer;help;rm'= {
        }
        &'infer;help;cache'= {
            cand list 'List what is kept, what was used last first'
            cand clear 'Remove all of it'
        }
        &'infer;help;cache;list'= {
        }
        &'infer;help;cache;clear'= {
        }
        &'infer;help;doctor'= {
        }
        &'infer;help;bench'= {
        }
        &'infer;help;tune'= {
        }
        &'infer;help;quantize'= {
        }
        &'infer;help;quantize-worker'= {
        }
        &'infer;help;completions'= {
        }
        &'infer;help;help'= {
        }
    ]
    $completions[$command]
}
