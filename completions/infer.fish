# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_infer_global_optspecs
    string join \n q/quiet v/verbose V/version h/help
end

function __fish_infer_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_infer_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_infer_using_subcommand
    set -l cmd (__fish_infer_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c infer -n "__fish_infer_needs_command" -s q -l quiet -d 'Only errors and what was asked for'
complete -c infer -n "__fish_infer_needs_command" -s v -l verbose -d 'More on stderr; `-vv` also the log of llama.cpp'
complete -c infer -n "__fish_infer_needs_command" -s V -l version -d 'Print the version; with -v also the llama.cpp build, its CPU features, backends and devices'
complete -c infer -n "__fish_infer_needs_command" -s h -l help -d 'Print help'
complete -c infer -n "__fish_infer_needs_command" -f -a "run" -d 'Answer one prompt'
complete -c infer -n "__fish_infer_needs_command" -f -a "chat" -d 'Hold a conversation'
complete -c infer -n "__fish_infer_needs_command" -f -a "pull" -d 'Download a model from the hub, or go on with a download'
complete -c infer -n "__fish_infer_needs_command" -f -a "list" -d 'List the models on this machine, and downloads that did not end'
complete -c infer -n "__fish_infer_needs_command" -f -a "ls" -d 'List the models on this machine, and downloads that did not end'
complete -c infer -n "__fish_infer_needs_command" -f -a "show" -d 'Show what is in a model, and whether one of the hub would fit here'
complete -c infer -n "__fish_infer_needs_command" -f -a "fit" -d 'List the models that this machine can run, and how fast at most'
complete -c infer -n "__fish_infer_needs_command" -f -a "rm" -d 'Remove models and partial downloads'
complete -c infer -n "__fish_infer_needs_command" -f -a "remove" -d 'Remove models and partial downloads'
complete -c infer -n "__fish_infer_needs_command" -f -a "cache" -d 'List or clear what was kept of prompts on disk'
complete -c infer -n "__fish_infer_needs_command" -f -a "doctor" -d 'Check this machine and this build, and say what to do about what is not right'
complete -c infer -n "__fish_infer_needs_command" -f -a "bench" -d 'Measure how fast models are here, and how near to what this machine allows'
complete -c infer -n "__fish_infer_needs_command" -f -a "tune" -d 'Measure which settings are fastest here for a model, and remember them'
complete -c infer -n "__fish_infer_needs_command" -f -a "quantize" -d 'Make a smaller INT8 or INT4 model of a file, and measure what was lost'
complete -c infer -n "__fish_infer_needs_command" -f -a "quantize-worker" -d 'The process that quantizes, started by `quantize`'
complete -c infer -n "__fish_infer_needs_command" -f -a "completions" -d 'Print a completion script for a shell'
complete -c infer -n "__fish_infer_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c infer -n "__fish_infer_using_subcommand run" -l gpu-layers -l ngl -d 'Layers on the GPU: a number, `auto` (what fits) or `all`' -r
complete -c infer -n "__fish_infer_using_subcommand run" -l device -d 'Use this device and fail if it isn\'t there, such as `cuda`, `cuda1` or `cpu`' -r
complete -c infer -n "__fish_infer_using_subcommand run" -s t -l threads -d 'Threads [default: the cores that this process may use]' -r
complete -c infer -n "__fish_infer_using_subcommand run" -s c -l ctx -d 'Context, tokens; `8k` is 8192 [default: what fits, at most 8192 or the model\'s own]' -r
complete -c infer -n "__fish_infer_using_subcommand run" -l kv -d 'Type of the KV cache; `q8_0` takes half the memory of `f16`, `q4_0` less than a third' -r -f -a "f16\t''
q8_0\t''
q4_0\t''"
complete -c infer -n "__fish_infer_using_subcommand run" -l keep -d 'First tokens that stay when the window is full, rounded up to whole turns that half of it holds; the system prompt always stays' -r
complete -c infer -n "__fish_infer_using_subcommand run" -l cache-size -d 'The most that this cache may take, such as `2GB`; 0 for no cache' -r
complete -c infer -n "__fish_infer_using_subcommand run" -l temp -d 'Temperature; 0 is greedy [default: 0.8]' -r
complete -c infer -n "__fish_infer_using_subcommand run" -l top-k -d 'Choose among the N most likely tokens, 0 for all [default: 40]' -r
complete -c infer -n "__fish_infer_using_subcommand run" -l top-p -d 'Choose among the fewest tokens with this probability together [default: 0.95]' -r
complete -c infer -n "__fish_infer_using_subcommand run" -l min-p -d 'Drop tokens less likely than this share of the most likely one [default: 0.05]' -r
complete -c infer -n "__fish_infer_using_subcommand run" -l repeat-penalty -d 'Divide the logits of the last 64 tokens, the prompt\'s too, by this [default: 1.0]' -r
complete -c infer -n "__fish_infer_using_subcommand run" -l seed -d 'Seed of the random numbers [default: random]' -r
complete -c infer -n "__fish_infer_using_subcommand run" -l preset -d 'Temperature 0.2, 0.7 or 1.0 with a top-p that suits it' -r -f -a "precise\t'Temperature 0.2, top-p 0.9'
balanced\t'Temperature 0.7, top-p 0.95'
creative\t'Temperature 1.0, top-p 0.98'"
complete -c infer -n "__fish_infer_using_subcommand run" -s s -l system -d 'System prompt' -r
complete -c infer -n "__fish_infer_using_subcommand run" -l template -d 'Chat template in place of the model\'s own: a name (chatml, …) or a Jinja file' -r -F
complete -c infer -n "__fish_infer_using_subcommand run" -l think -d 'Let a reasoning model think first; thoughts never reach stdout' -r -f -a "auto\t'What the model\'s template does by itself'
on\t''
off\t''"
complete -c infer -n "__fish_infer_using_subcommand run" -s n -l max-tokens -d 'Most tokens to generate [default: until the end of the turn]' -r
complete -c infer -n "__fish_infer_using_subcommand run" -l stop -d 'Stop before this text (repeatable)' -r
complete -c infer -n "__fish_infer_using_subcommand run" -l metrics-file -d 'Append counts and times of each request to this file, as a line of JSON without any text of it' -r -F
complete -c infer -n "__fish_infer_using_subcommand run" -s f -l file -d 'Add a file to the prompt (repeatable)' -r -F
complete -c infer -n "__fish_infer_using_subcommand run" -l overflow -d 'What to do when the window is full [default: stop]' -r -f -a "slide\t'Drop the oldest whole turns, or the oldest half of a long answer; the rest moves up in the cache'
rebuild\t'Drop the same, and evaluate the rest again: exact, slower'
stop\t'End the answer'"
complete -c infer -n "__fish_infer_using_subcommand run" -s y -l yes -d 'Download the model without asking when it is not here'
complete -c infer -n "__fish_infer_using_subcommand run" -l no-cache -d 'Neither use nor fill the cache of prompts on disk'
complete -c infer -n "__fish_infer_using_subcommand run" -l stats -d 'Print statistics on stderr'
complete -c infer -n "__fish_infer_using_subcommand run" -l raw -d 'Continue the text as it is, without the chat template'
complete -c infer -n "__fish_infer_using_subcommand run" -l json -d 'Print one JSON object with text, thinking, counts, times and settings'
complete -c infer -n "__fish_infer_using_subcommand run" -s q -l quiet -d 'Only errors and what was asked for'
complete -c infer -n "__fish_infer_using_subcommand run" -s v -l verbose -d 'More on stderr; `-vv` also the log of llama.cpp'
complete -c infer -n "__fish_infer_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c infer -n "__fish_infer_using_subcommand chat" -l gpu-layers -l ngl -d 'Layers on the GPU: a number, `auto` (what fits) or `all`' -r
complete -c infer -n "__fish_infer_using_subcommand chat" -l device -d 'Use this device and fail if it isn\'t there, such as `cuda`, `cuda1` or `cpu`' -r
complete -c infer -n "__fish_infer_using_subcommand chat" -s t -l threads -d 'Threads [default: the cores that this process may use]' -r
complete -c infer -n "__fish_infer_using_subcommand chat" -s c -l ctx -d 'Context, tokens; `8k` is 8192 [default: what fits, at most 8192 or the model\'s own]' -r
complete -c infer -n "__fish_infer_using_subcommand chat" -l kv -d 'Type of the KV cache; `q8_0` takes half the memory of `f16`, `q4_0` less than a third' -r -f -a "f16\t''
q8_0\t''
q4_0\t''"
complete -c infer -n "__fish_infer_using_subcommand chat" -l keep -d 'First tokens that stay when the window is full, rounded up to whole turns that half of it holds; the system prompt always stays' -r
complete -c infer -n "__fish_infer_using_subcommand chat" -l cache-size -d 'The most that this cache may take, such as `2GB`; 0 for no cache' -r
complete -c infer -n "__fish_infer_using_subcommand chat" -l temp -d 'Temperature; 0 is greedy [default: 0.8]' -r
complete -c infer -n "__fish_infer_using_subcommand chat" -l top-k -d 'Choose among the N most likely tokens, 0 for all [default: 40]' -r
complete -c infer -n "__fish_infer_using_subcommand chat" -l top-p -d 'Choose among the fewest tokens with this probability together [default: 0.95]' -r
complete -c infer -n "__fish_infer_using_subcommand chat" -l min-p -d 'Drop tokens less likely than this share of the most likely one [default: 0.05]' -r
complete -c infer -n "__fish_infer_using_subcommand chat" -l repeat-penalty -d 'Divide the logits of the last 64 tokens, the prompt\'s too, by this [default: 1.0]' -r
complete -c infer -n "__fish_infer_using_subcommand chat" -l seed -d 'Seed of the random numbers [default: random]' -r
complete -c infer -n "__fish_infer_using_subcommand chat" -l preset -d 'Temperature 0.2, 0.7 or 1.0 with a top-p that suits it' -r -f -a "precise\t'Temperature 0.2, top-p 0.9'
balanced\t'Temperature 0.7, top-p 0.95'
creative\t'Temperature 1.0, top-p 0.98'"
complete -c infer -n "__fish_infer_using_subcommand chat" -s s -l system -d 'System prompt' -r
complete -c infer -n "__fish_infer_using_subcommand chat" -l template -d 'Chat template in place of the model\'s own: a name (chatml, …) or a Jinja file' -r -F
complete -c infer -n "__fish_infer_using_subcommand chat" -l think -d 'Let a reasoning model think first; thoughts never reach stdout' -r -f -a "auto\t'What the model\'s template does by itself'
on\t''
off\t''"
complete -c infer -n "__fish_infer_using_subcommand chat" -s n -l max-tokens -d 'Most tokens to generate [default: until the end of the turn]' -r
complete -c infer -n "__fish_infer_using_subcommand chat" -l stop -d 'Stop before this text (repeatable)' -r
complete -c infer -n "__fish_infer_using_subcommand chat" -l metrics-file -d 'Append counts and times of each request to this file, as a line of JSON without any text of it' -r -F
complete -c infer -n "__fish_infer_using_subcommand chat" -l overflow -d 'What to do when the window is full [default: slide]' -r -f -a "slide\t'Drop the oldest whole turns, or the oldest half of a long answer; the rest moves up in the cache'
rebuild\t'Drop the same, and evaluate the rest again: exact, slower'
stop\t'End the answer'"
complete -c infer -n "__fish_infer_using_subcommand chat" -l session -d 'Keep the conversation under this name, or go on with the one that is kept there' -r
complete -c infer -n "__fish_infer_using_subcommand chat" -l remove-session -d 'Remove a session; on a terminal it asks first, unless `--yes` is given' -r
complete -c infer -n "__fish_infer_using_subcommand chat" -s y -l yes -d 'Download the model without asking when it is not here'
complete -c infer -n "__fish_infer_using_subcommand chat" -l no-cache -d 'Neither use nor fill the cache of prompts on disk'
complete -c infer -n "__fish_infer_using_subcommand chat" -l stats -d 'Print statistics on stderr'
complete -c infer -n "__fish_infer_using_subcommand chat" -l continue -d 'Go on with the session used last'
complete -c infer -n "__fish_infer_using_subcommand chat" -l list-sessions -d 'List the sessions'
complete -c infer -n "__fish_infer_using_subcommand chat" -l json -d 'With `--list-sessions`, print one JSON object'
complete -c infer -n "__fish_infer_using_subcommand chat" -s q -l quiet -d 'Only errors and what was asked for'
complete -c infer -n "__fish_infer_using_subcommand chat" -s v -l verbose -d 'More on stderr; `-vv` also the log of llama.cpp'
complete -c infer -n "__fish_infer_using_subcommand chat" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c infer -n "__fish_infer_using_subcommand pull" -l connections -d 'Connections per file' -r
complete -c infer -n "__fish_infer_using_subcommand pull" -l retries -d 'Attempts in a row that may bring nothing before it gives up' -r
complete -c infer -n "__fish_infer_using_subcommand pull" -l timeout -d 'How long a server may be silent before the connection is opened anew' -r
complete -c infer -n "__fish_infer_using_subcommand pull" -l max-size -d 'Refuse a model larger than this, such as `8GB` or `500MB`' -r
complete -c infer -n "__fish_infer_using_subcommand pull" -l dry-run -d 'Say what would be fetched, and fetch nothing'
complete -c infer -n "__fish_infer_using_subcommand pull" -l json -d 'Print events as lines of JSON'
complete -c infer -n "__fish_infer_using_subcommand pull" -s q -l quiet -d 'Only errors and what was asked for'
complete -c infer -n "__fish_infer_using_subcommand pull" -s v -l verbose -d 'More on stderr; `-vv` also the log of llama.cpp'
complete -c infer -n "__fish_infer_using_subcommand pull" -s h -l help -d 'Print help'
complete -c infer -n "__fish_infer_using_subcommand list" -s a -l all -d 'Also what no name refers to: loose files of the cache, and downloads of other programs'
complete -c infer -n "__fish_infer_using_subcommand list" -l names -d 'The names that `infer pull` knows, instead of what is here'
complete -c infer -n "__fish_infer_using_subcommand list" -l json -d 'Print one JSON object'
complete -c infer -n "__fish_infer_using_subcommand list" -s q -l quiet -d 'Only errors and what was asked for'
complete -c infer -n "__fish_infer_using_subcommand list" -s v -l verbose -d 'More on stderr; `-vv` also the log of llama.cpp'
complete -c infer -n "__fish_infer_using_subcommand list" -s h -l help -d 'Print help'
complete -c infer -n "__fish_infer_using_subcommand ls" -s a -l all -d 'Also what no name refers to: loose files of the cache, and downloads of other programs'
complete -c infer -n "__fish_infer_using_subcommand ls" -l names -d 'The names that `infer pull` knows, instead of what is here'
complete -c infer -n "__fish_infer_using_subcommand ls" -l json -d 'Print one JSON object'
complete -c infer -n "__fish_infer_using_subcommand ls" -s q -l quiet -d 'Only errors and what was asked for'
complete -c infer -n "__fish_infer_using_subcommand ls" -s v -l verbose -d 'More on stderr; `-vv` also the log of llama.cpp'
complete -c infer -n "__fish_infer_using_subcommand ls" -s h -l help -d 'Print help'
complete -c infer -n "__fish_infer_using_subcommand show" -l json -d 'Print one JSON object'
complete -c infer -n "__fish_infer_using_subcommand show" -l template -d 'Print the chat template'
complete -c infer -n "__fish_infer_using_subcommand show" -s q -l quiet -d 'Only errors and what was asked for'
complete -c infer -n "__fish_infer_using_subcommand show" -s v -l verbose -d 'More on stderr; `-vv` also the log of llama.cpp'
complete -c infer -n "__fish_infer_using_subcommand show" -s h -l help -d 'Print help'
complete -c infer -n "__fish_infer_using_subcommand fit" -s c -l ctx -d 'Context that has to fit, tokens; `8k` is 8192 [default: what fits, at most 8192 or the model\'s own]' -r
complete -c infer -n "__fish_infer_using_subcommand fit" -l kv -d 'Type of the KV cache; `q8_0` takes half the memory of `f16`, `q4_0` less than a third' -r -f -a "f16\t''
q8_0\t''
q4_0\t''"
complete -c infer -n "__fish_infer_using_subcommand fit" -l device -d 'Use this device only, such as `cuda`, `cuda1` or `cpu`' -r
complete -c infer -n "__fish_infer_using_subcommand fit" -s t -l threads -d 'Threads [default: the cores that this process may use]' -r
complete -c infer -n "__fish_infer_using_subcommand fit" -s a -l all -d 'Also those that do not fit, and why'
complete -c infer -n "__fish_infer_using_subcommand fit" -l json -d 'Print one JSON object'
complete -c infer -n "__fish_infer_using_subcommand fit" -s q -l quiet -d 'Only errors and what was asked for'
complete -c infer -n "__fish_infer_using_subcommand fit" -s v -l verbose -d 'More on stderr; `-vv` also the log of llama.cpp'
complete -c infer -n "__fish_infer_using_subcommand fit" -s h -l help -d 'Print help'
complete -c infer -n "__fish_infer_using_subcommand rm" -l dry-run -d 'Say what would be removed, and remove nothing'
complete -c infer -n "__fish_infer_using_subcommand rm" -l all -d 'Everything that is here of the repositories, other programs\' files too'
complete -c infer -n "__fish_infer_using_subcommand rm" -s y -l yes -d 'Do not ask'
complete -c infer -n "__fish_infer_using_subcommand rm" -l json -d 'Print one JSON object'
complete -c infer -n "__fish_infer_using_subcommand rm" -s q -l quiet -d 'Only errors and what was asked for'
complete -c infer -n "__fish_infer_using_subcommand rm" -s v -l verbose -d 'More on stderr; `-vv` also the log of llama.cpp'
complete -c infer -n "__fish_infer_using_subcommand rm" -s h -l help -d 'Print help'
complete -c infer -n "__fish_infer_using_subcommand remove" -l dry-run -d 'Say what would be removed, and remove nothing'
complete -c infer -n "__fish_infer_using_subcommand remove" -l all -d 'Everything that is here of the repositories, other programs\' files too'
complete -c infer -n "__fish_infer_using_subcommand remove" -s y -l yes -d 'Do not ask'
complete -c infer -n "__fish_infer_using_subcommand remove" -l json -d 'Print one JSON object'
complete -c infer -n "__fish_infer_using_subcommand remove" -s q -l quiet -d 'Only errors and what was asked for'
complete -c infer -n "__fish_infer_using_subcommand remove" -s v -l verbose -d 'More on stderr; `-vv` also the log of llama.cpp'
complete -c infer -n "__fish_infer_using_subcommand remove" -s h -l help -d 'Print help'
complete -c infer -n "__fish_infer_using_subcommand cache; and not __fish_seen_subcommand_from list ls clear" -s q -l quiet -d 'Only errors and what was asked for'
complete -c infer -n "__fish_infer_using_subcommand cache; and not __fish_seen_subcommand_from list ls clear" -s v -l verbose -d 'More on stderr; `-vv` also the log of llama.cpp'
complete -c infer -n "__fish_infer_using_subcommand cache; and not __fish_seen_subcommand_from list ls clear" -s h -l help -d 'Print help'
complete -c infer -n "__fish_infer_using_subcommand cache; and not __fish_seen_subcommand_from list ls clear" -f -a "list" -d 'List what is kept, what was used last first'
complete -c infer -n "__fish_infer_using_subcommand cache; and not __fish_seen_subcommand_from list ls clear" -f -a "ls" -d 'List what is kept, what was used last first'
complete -c infer -n "__fish_infer_using_subcommand cache; and not __fish_seen_subcommand_from list ls clear" -f -a "clear" -d 'Remove all of it'
complete -c infer -n "__fish_infer_using_subcommand cache; and __fish_seen_subcommand_from list" -l json -d 'Print one JSON object'
complete -c infer -n "__fish_infer_using_subcommand cache; and __fish_seen_subcommand_from list" -s q -l quiet -d 'Only errors and what was asked for'
complete -c infer -n "__fish_infer_using_subcommand cache; and __fish_seen_subcommand_from list" -s v -l verbose -d 'More on stderr; `-vv` also the log of llama.cpp'
complete -c infer -n "__fish_infer_using_subcommand cache; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c infer -n "__fish_infer_using_subcommand cache; and __fish_seen_subcommand_from ls" -l json -d 'Print one JSON object'
complete -c infer -n "__fish_infer_using_subcommand cache; and __fish_seen_subcommand_from ls" -s q -l quiet -d 'Only errors and what was asked for'
complete -c infer -n "__fish_infer_using_subcommand cache; and __fish_seen_subcommand_from ls" -s v -l verbose -d 'More on stderr; `-vv` also the log of llama.cpp'
complete -c infer -n "__fish_infer_using_subcommand cache; and __fish_seen_subcommand_from ls" -s h -l help -d 'Print help'
complete -c infer -n "__fish_infer_using_subcommand cache; and __fish_seen_subcommand_from clear" -s y -l yes -d 'Do not ask'
complete -c infer -n "__fish_infer_using_subcommand cache; and __fish_seen_subcommand_from clear" -l json -d 'Print one JSON object'
complete -c infer -n "__fish_infer_using_subcommand cache; and __fish_seen_subcommand_from clear" -s q -l quiet -d 'Only errors and what was asked for'
complete -c infer -n "__fish_infer_using_subcommand cache; and __fish_seen_subcommand_from clear" -s v -l verbose -d 'More on stderr; `-vv` also the log of llama.cpp'
complete -c infer -n "__fish_infer_using_subcommand cache; and __fish_seen_subcommand_from clear" -s h -l help -d 'Print help'
complete -c infer -n "__fish_infer_using_subcommand doctor" -l offline -d 'Do not ask the hub; `HF_HUB_OFFLINE=1` does the same'
complete -c infer -n "__fish_infer_using_subcommand doctor" -l json -d 'Print one JSON object'
complete -c infer -n "__fish_infer_using_subcommand doctor" -s q -l quiet -d 'Only errors and what was asked for'
complete -c infer -n "__fish_infer_using_subcommand doctor" -s v -l verbose -d 'More on stderr; `-vv` also the log of llama.cpp'
complete -c infer -n "__fish_infer_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c infer -n "__fish_infer_using_subcommand bench" -s p -l prompt -d 'Prompts to evaluate, tokens; 0 for none' -r
complete -c infer -n "__fish_infer_using_subcommand bench" -s g -s n -l gen -d 'Tokens to generate; 0 for none' -r
complete -c infer -n "__fish_infer_using_subcommand bench" -s d -l depth -d 'Tokens in the cache before each test [default: 0,2048, as far as the model\'s context reaches]' -r
complete -c infer -n "__fish_infer_using_subcommand bench" -s a -l answer -d 'A whole answer: tokens of the prompt and of the answer (repeatable); `0+0` for none' -r
complete -c infer -n "__fish_infer_using_subcommand bench" -s r -l repetitions -d 'Repetitions of each test' -r
complete -c infer -n "__fish_infer_using_subcommand bench" -s t -l threads -d 'Threads [default: the cores that this process may use]' -r
complete -c infer -n "__fish_infer_using_subcommand bench" -s b -l batch -d 'Tokens of one evaluation [default: 512, or the micro-batch if that is larger]' -r
complete -c infer -n "__fish_infer_using_subcommand bench" -s u -l ubatch -d 'Tokens of a micro-batch, at most those of one evaluation [default: 512]' -r
complete -c infer -n "__fish_infer_using_subcommand bench" -l kv -d 'Types of the KV cache' -r -f -a "f16\t''
q8_0\t''
q4_0\t''"
complete -c infer -n "__fish_infer_using_subcommand bench" -l flash -d 'Flash attention' -r -f -a "auto\t'Where llama.cpp knows that the device can'
on\t''
off\t''"
complete -c infer -n "__fish_infer_using_subcommand bench" -l gpu-layers -l ngl -d 'Layers on the GPU: numbers, `auto` (what fits) or `all`' -r
complete -c infer -n "__fish_infer_using_subcommand bench" -l device -d 'Use this device and fail if it isn\'t there, such as `cuda`, `cuda1` or `cpu`' -r
complete -c infer -n "__fish_infer_using_subcommand bench" -s o -l output -d 'Form of the rows on stdout; `json`, `jsonl`, `csv` and `md` have llama-bench\'s names' -r -f -a "table\t''
md\t''
csv\t''
json\t''
jsonl\t''"
complete -c infer -n "__fish_infer_using_subcommand bench" -l baseline -d 'Compare with the rows of an earlier `-o json` or `-o jsonl`, of llama-bench\'s too' -r -F
complete -c infer -n "__fish_infer_using_subcommand bench" -l fail-slower -d 'Exit with 1 when a row is slower than the baseline by more than this many percent' -r
complete -c infer -n "__fish_infer_using_subcommand bench" -l plot -d 'Draw tokens per second over depth into this file' -r -F
complete -c infer -n "__fish_infer_using_subcommand bench" -s y -l yes -d 'Download a model without asking when it is not here'
complete -c infer -n "__fish_infer_using_subcommand bench" -l json -d 'The same as `-o json`'
complete -c infer -n "__fish_infer_using_subcommand bench" -s q -l quiet -d 'Only errors and what was asked for'
complete -c infer -n "__fish_infer_using_subcommand bench" -s v -l verbose -d 'More on stderr; `-vv` also the log of llama.cpp'
complete -c infer -n "__fish_infer_using_subcommand bench" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c infer -n "__fish_infer_using_subcommand tune" -l seconds -d 'About how long to measure; with less time prompts are shorter and caches less deep' -r
complete -c infer -n "__fish_infer_using_subcommand tune" -l device -d 'Use this device and fail if it isn\'t there, such as `cuda`, `cuda1` or `cpu`' -r
complete -c infer -n "__fish_infer_using_subcommand tune" -l clear -d 'Forget what is remembered for models like this one, or without a model all of it'
complete -c infer -n "__fish_infer_using_subcommand tune" -l dry-run -d 'Measure and show, but do not remember'
complete -c infer -n "__fish_infer_using_subcommand tune" -s y -l yes -d 'Download the model without asking when it is not here'
complete -c infer -n "__fish_infer_using_subcommand tune" -l json -d 'Print one JSON object'
complete -c infer -n "__fish_infer_using_subcommand tune" -s q -l quiet -d 'Only errors and what was asked for'
complete -c infer -n "__fish_infer_using_subcommand tune" -s v -l verbose -d 'More on stderr; `-vv` also the log of llama.cpp'
complete -c infer -n "__fish_infer_using_subcommand tune" -s h -l help -d 'Print help'
complete -c infer -n "__fish_infer_using_subcommand quantize" -l to -d 'The type to make: int4, int8, or one of those below' -r
complete -c infer -n "__fish_infer_using_subcommand quantize" -s o -l output -d 'Write this file' -r -F
complete -c infer -n "__fish_infer_using_subcommand quantize" -l as -d 'Keep it under this name, for `infer run NAME` [default: made from the source\'s name]' -r
complete -c infer -n "__fish_infer_using_subcommand quantize" -l imatrix -d 'Use an importance matrix, a file of llama.cpp\'s or of `--calibrate`' -r -F
complete -c infer -n "__fish_infer_using_subcommand quantize" -l calibrate -d 'Compute an importance matrix from this text first, and keep it beside the result' -r -F
complete -c infer -n "__fish_infer_using_subcommand quantize" -s t -l threads -d 'Threads [default: the cores that this process may use]' -r
complete -c infer -n "__fish_infer_using_subcommand quantize" -l check-text -d 'Measure on this text in place of the one inside the program' -r -F
complete -c infer -n "__fish_infer_using_subcommand quantize" -l fail-below -d 'Exit with 1 when the verdict is worse' -r -f -a "good\t''
fair\t''"
complete -c infer -n "__fish_infer_using_subcommand quantize" -l compare -d 'Only measure: how the predictions of B differ from those of A; without B, the perplexity of A' -r -F
complete -c infer -n "__fish_infer_using_subcommand quantize" -l allow-requantize -d 'Take a source that is quantized already'
complete -c infer -n "__fish_infer_using_subcommand quantize" -l dry-run -d 'Show the plan, and make nothing'
complete -c infer -n "__fish_infer_using_subcommand quantize" -l no-check -d 'Do not measure the result'
complete -c infer -n "__fish_infer_using_subcommand quantize" -s y -l yes -d 'Download the source, or replace the result, without asking'
complete -c infer -n "__fish_infer_using_subcommand quantize" -l json -d 'Print one JSON object'
complete -c infer -n "__fish_infer_using_subcommand quantize" -s q -l quiet -d 'Only errors and what was asked for'
complete -c infer -n "__fish_infer_using_subcommand quantize" -s v -l verbose -d 'More on stderr; `-vv` also the log of llama.cpp'
complete -c infer -n "__fish_infer_using_subcommand quantize" -s h -l help -d 'Print help'
complete -c infer -n "__fish_infer_using_subcommand quantize-worker" -l json
complete -c infer -n "__fish_infer_using_subcommand quantize-worker" -s q -l quiet -d 'Only errors and what was asked for'
complete -c infer -n "__fish_infer_using_subcommand quantize-worker" -s v -l verbose -d 'More on stderr; `-vv` also the log of llama.cpp'
complete -c infer -n "__fish_infer_using_subcommand quantize-worker" -s h -l help -d 'Print help'
complete -c infer -n "__fish_infer_using_subcommand completions" -s q -l quiet -d 'Only errors and what was asked for'
complete -c infer -n "__fish_infer_using_subcommand completions" -s v -l verbose -d 'More on stderr; `-vv` also the log of llama.cpp'
complete -c infer -n "__fish_infer_using_subcommand completions" -s h -l help -d 'Print help'
complete -c infer -n "__fish_infer_using_subcommand help; and not __fish_seen_subcommand_from run chat pull list show fit rm cache doctor bench tune quantize quantize-worker completions help" -f -a "run" -d 'Answer one prompt'
complete -c infer -n "__fish_infer_using_subcommand help; and not __fish_seen_subcommand_from run chat pull list show fit rm cache doctor bench tune quantize quantize-worker completions help" -f -a "chat" -d 'Hold a conversation'
complete -c infer -n "__fish_infer_using_subcommand help; and not __fish_seen_subcommand_from run chat pull list show fit rm cache doctor bench tune quantize quantize-worker completions help" -f -a "pull" -d 'Download a model from the hub, or go on with a download'
complete -c infer -n "__fish_infer_using_subcommand help; and not __fish_seen_subcommand_from run chat pull list show fit rm cache doctor bench tune quantize quantize-worker completions help" -f -a "list" -d 'List the models on this machine, and downloads that did not end'
complete -c infer -n "__fish_infer_using_subcommand help; and not __fish_seen_subcommand_from run chat pull list show fit rm cache doctor bench tune quantize quantize-worker completions help" -f -a "show" -d 'Show what is in a model, and whether one of the hub would fit here'
complete -c infer -n "__fish_infer_using_subcommand help; and not __fish_seen_subcommand_from run chat pull list show fit rm cache doctor bench tune quantize quantize-worker completions help" -f -a "fit" -d 'List the models that this machine can run, and how fast at most'
complete -c infer -n "__fish_infer_using_subcommand help; and not __fish_seen_subcommand_from run chat pull list show fit rm cache doctor bench tune quantize quantize-worker completions help" -f -a "rm" -d 'Remove models and partial downloads'
complete -c infer -n "__fish_infer_using_subcommand help; and not __fish_seen_subcommand_from run chat pull list show fit rm cache doctor bench tune quantize quantize-worker completions help" -f -a "cache" -d 'List or clear what was kept of prompts on disk'
complete -c infer -n "__fish_infer_using_subcommand help; and not __fish_seen_subcommand_from run chat pull list show fit rm cache doctor bench tune quantize quantize-worker completions help" -f -a "doctor" -d 'Check this machine and this build, and say what to do about what is not right'
complete -c infer -n "__fish_infer_using_subcommand help; and not __fish_seen_subcommand_from run chat pull list show fit rm cache doctor bench tune quantize quantize-worker completions help" -f -a "bench" -d 'Measure how fast models are here, and how near to what this machine allows'
complete -c infer -n "__fish_infer_using_subcommand help; and not __fish_seen_subcommand_from run chat pull list show fit rm cache doctor bench tune quantize quantize-worker completions help" -f -a "tune" -d 'Measure which settings are fastest here for a model, and remember them'
complete -c infer -n "__fish_infer_using_subcommand help; and not __fish_seen_subcommand_from run chat pull list show fit rm cache doctor bench tune quantize quantize-worker completions help" -f -a "quantize" -d 'Make a smaller INT8 or INT4 model of a file, and measure what was lost'
complete -c infer -n "__fish_infer_using_subcommand help; and not __fish_seen_subcommand_from run chat pull list show fit rm cache doctor bench tune quantize quantize-worker completions help" -f -a "quantize-worker" -d 'The process that quantizes, started by `quantize`'
complete -c infer -n "__fish_infer_using_subcommand help; and not __fish_seen_subcommand_from run chat pull list show fit rm cache doctor bench tune quantize quantize-worker completions help" -f -a "completions" -d 'Print a completion script for a shell'
complete -c infer -n "__fish_infer_using_subcommand help; and not __fish_seen_subcommand_from run chat pull list show fit rm cache doctor bench tune quantize quantize-worker completions help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c infer -n "__fish_infer_using_subcommand help; and __fish_seen_subcommand_from cache" -f -a "list" -d 'List what is kept, what was used last first'
complete -c infer -n "__fish_infer_using_subcommand help; and __fish_seen_subcommand_from cache" -f -a "clear" -d 'Remove all of it'
