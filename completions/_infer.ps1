
using namespace System.Management.Automation
using namespace System.Management.Automation.Language

Register-ArgumentCompleter -Native -CommandName 'infer' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $commandElements = $commandAst.CommandElements
    $command = @(
        'infer'
        for ($i = 1; $i -lt $commandElements.Count; $i++) {
            $element = $commandElements[$i]
            if ($element -isnot [StringConstantExpressionAst] -or
                $element.StringConstantType -ne [StringConstantType]::BareWord -or
                $element.Value.StartsWith('-') -or
                $element.Value -eq $wordToComplete) {
                break
        }
        $element.Value
    }) -join ';'

    $completions = @(switch ($command) {
        'infer' {
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print the version; with -v also the llama.cpp build, its CPU features, backends and devices')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print the version; with -v also the llama.cpp build, its CPU features, backends and devices')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('run', 'run', [CompletionResultType]::ParameterValue, 'Answer one prompt')
            [CompletionResult]::new('chat', 'chat', [CompletionResultType]::ParameterValue, 'Hold a conversation')
            [CompletionResult]::new('pull', 'pull', [CompletionResultType]::ParameterValue, 'Download a model from the hub, or go on with a download')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'List the models on this machine, and downloads that did not end')
            [CompletionResult]::new('ls', 'ls', [CompletionResultType]::ParameterValue, 'List the models on this machine, and downloads that did not end')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Show what is in a model, and whether one of the hub would fit here')
            [CompletionResult]::new('fit', 'fit', [CompletionResultType]::ParameterValue, 'List the models that this machine can run, and how fast at most')
            [CompletionResult]::new('rm', 'rm', [CompletionResultType]::ParameterValue, 'Remove models and partial downloads')
            [CompletionResult]::new('remove', 'remove', [CompletionResultType]::ParameterValue, 'Remove models and partial downloads')
            [CompletionResult]::new('cache', 'cache', [CompletionResultType]::ParameterValue, 'List or clear what was kept of prompts on disk')
            [CompletionResult]::new('doctor', 'doctor', [CompletionResultType]::ParameterValue, 'Check this machine and this build, and say what to do about what is not right')
            [CompletionResult]::new('bench', 'bench', [CompletionResultType]::ParameterValue, 'Measure how fast models are here, and how near to what this machine allows')
            [CompletionResult]::new('tune', 'tune', [CompletionResultType]::ParameterValue, 'Measure which settings are fastest here for a model, and remember them')
            [CompletionResult]::new('quantize', 'quantize', [CompletionResultType]::ParameterValue, 'Make a smaller INT8 or INT4 model of a file, and measure what was lost')
            [CompletionResult]::new('quantize-worker', 'quantize-worker', [CompletionResultType]::ParameterValue, 'The process that quantizes, started by `quantize`')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print a completion script for a shell')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'infer;run' {
            [CompletionResult]::new('--gpu-layers', '--gpu-layers', [CompletionResultType]::ParameterName, 'Layers on the GPU: a number, `auto` (what fits) or `all`')
            [CompletionResult]::new('--ngl', '--ngl', [CompletionResultType]::ParameterName, 'Layers on the GPU: a number, `auto` (what fits) or `all`')
            [CompletionResult]::new('--device', '--device', [CompletionResultType]::ParameterName, 'Use this device and fail if it isn''t there, such as `cuda`, `cuda1` or `cpu`')
            [CompletionResult]::new('-t', '-t', [CompletionResultType]::ParameterName, 'Threads [default: the cores that this process may use]')
            [CompletionResult]::new('--threads', '--threads', [CompletionResultType]::ParameterName, 'Threads [default: the cores that this process may use]')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'Context, tokens; `8k` is 8192 [default: what fits, at most 8192 or the model''s own]')
            [CompletionResult]::new('--ctx', '--ctx', [CompletionResultType]::ParameterName, 'Context, tokens; `8k` is 8192 [default: what fits, at most 8192 or the model''s own]')
            [CompletionResult]::new('--kv', '--kv', [CompletionResultType]::ParameterName, 'Type of the KV cache; `q8_0` takes half the memory of `f16`, `q4_0` less than a third')
            [CompletionResult]::new('--keep', '--keep', [CompletionResultType]::ParameterName, 'First tokens that stay when the window is full, rounded up to whole turns that half of it holds; the system prompt always stays')
            [CompletionResult]::new('--cache-size', '--cache-size', [CompletionResultType]::ParameterName, 'The most that this cache may take, such as `2GB`; 0 for no cache')
            [CompletionResult]::new('--temp', '--temp', [CompletionResultType]::ParameterName, 'Temperature; 0 is greedy [default: 0.8]')
            [CompletionResult]::new('--top-k', '--top-k', [CompletionResultType]::ParameterName, 'Choose among the N most likely tokens, 0 for all [default: 40]')
            [CompletionResult]::new('--top-p', '--top-p', [CompletionResultType]::ParameterName, 'Choose among the fewest tokens with this probability together [default: 0.95]')
            [CompletionResult]::new('--min-p', '--min-p', [CompletionResultType]::ParameterName, 'Drop tokens less likely than this share of the most likely one [default: 0.05]')
            [CompletionResult]::new('--repeat-penalty', '--repeat-penalty', [CompletionResultType]::ParameterName, 'Divide the logits of the last 64 tokens, the prompt''s too, by this [default: 1.0]')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of the random numbers [default: random]')
            [CompletionResult]::new('--preset', '--preset', [CompletionResultType]::ParameterName, 'Temperature 0.2, 0.7 or 1.0 with a top-p that suits it')
            [CompletionResult]::new('-s', '-s', [CompletionResultType]::ParameterName, 'System prompt')
            [CompletionResult]::new('--system', '--system', [CompletionResultType]::ParameterName, 'System prompt')
            [CompletionResult]::new('--template', '--template', [CompletionResultType]::ParameterName, 'Chat template in place of the model''s own: a name (chatml, …) or a Jinja file')
            [CompletionResult]::new('--think', '--think', [CompletionResultType]::ParameterName, 'Let a reasoning model think first; thoughts never reach stdout')
            [CompletionResult]::new('-n', '-n', [CompletionResultType]::ParameterName, 'Most tokens to generate [default: until the end of the turn]')
            [CompletionResult]::new('--max-tokens', '--max-tokens', [CompletionResultType]::ParameterName, 'Most tokens to generate [default: until the end of the turn]')
            [CompletionResult]::new('--stop', '--stop', [CompletionResultType]::ParameterName, 'Stop before this text (repeatable)')
            [CompletionResult]::new('--metrics-file', '--metrics-file', [CompletionResultType]::ParameterName, 'Append counts and times of each request to this file, as a line of JSON without any text of it')
            [CompletionResult]::new('-f', '-f', [CompletionResultType]::ParameterName, 'Add a file to the prompt (repeatable)')
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Add a file to the prompt (repeatable)')
            [CompletionResult]::new('--overflow', '--overflow', [CompletionResultType]::ParameterName, 'What to do when the window is full [default: stop]')
            [CompletionResult]::new('-y', '-y', [CompletionResultType]::ParameterName, 'Download the model without asking when it is not here')
            [CompletionResult]::new('--yes', '--yes', [CompletionResultType]::ParameterName, 'Download the model without asking when it is not here')
            [CompletionResult]::new('--no-cache', '--no-cache', [CompletionResultType]::ParameterName, 'Neither use nor fill the cache of prompts on disk')
            [CompletionResult]::new('--stats', '--stats', [CompletionResultType]::ParameterName, 'Print statistics on stderr')
            [CompletionResult]::new('--raw', '--raw', [CompletionResultType]::ParameterName, 'Continue the text as it is, without the chat template')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object with text, thinking, counts, times and settings')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'infer;chat' {
            [CompletionResult]::new('--gpu-layers', '--gpu-layers', [CompletionResultType]::ParameterName, 'Layers on the GPU: a number, `auto` (what fits) or `all`')
            [CompletionResult]::new('--ngl', '--ngl', [CompletionResultType]::ParameterName, 'Layers on the GPU: a number, `auto` (what fits) or `all`')
            [CompletionResult]::new('--device', '--device', [CompletionResultType]::ParameterName, 'Use this device and fail if it isn''t there, such as `cuda`, `cuda1` or `cpu`')
            [CompletionResult]::new('-t', '-t', [CompletionResultType]::ParameterName, 'Threads [default: the cores that this process may use]')
            [CompletionResult]::new('--threads', '--threads', [CompletionResultType]::ParameterName, 'Threads [default: the cores that this process may use]')
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'Context, tokens; `8k` is 8192 [default: what fits, at most 8192 or the model''s own]')
            [CompletionResult]::new('--ctx', '--ctx', [CompletionResultType]::ParameterName, 'Context, tokens; `8k` is 8192 [default: what fits, at most 8192 or the model''s own]')
            [CompletionResult]::new('--kv', '--kv', [CompletionResultType]::ParameterName, 'Type of the KV cache; `q8_0` takes half the memory of `f16`, `q4_0` less than a third')
            [CompletionResult]::new('--keep', '--keep', [CompletionResultType]::ParameterName, 'First tokens that stay when the window is full, rounded up to whole turns that half of it holds; the system prompt always stays')
            [CompletionResult]::new('--cache-size', '--cache-size', [CompletionResultType]::ParameterName, 'The most that this cache may take, such as `2GB`; 0 for no cache')
            [CompletionResult]::new('--temp', '--temp', [CompletionResultType]::ParameterName, 'Temperature; 0 is greedy [default: 0.8]')
            [CompletionResult]::new('--top-k', '--top-k', [CompletionResultType]::ParameterName, 'Choose among the N most likely tokens, 0 for all [default: 40]')
            [CompletionResult]::new('--top-p', '--top-p', [CompletionResultType]::ParameterName, 'Choose among the fewest tokens with this probability together [default: 0.95]')
            [CompletionResult]::new('--min-p', '--min-p', [CompletionResultType]::ParameterName, 'Drop tokens less likely than this share of the most likely one [default: 0.05]')
            [CompletionResult]::new('--repeat-penalty', '--repeat-penalty', [CompletionResultType]::ParameterName, 'Divide the logits of the last 64 tokens, the prompt''s too, by this [default: 1.0]')
            [CompletionResult]::new('--seed', '--seed', [CompletionResultType]::ParameterName, 'Seed of the random numbers [default: random]')
            [CompletionResult]::new('--preset', '--preset', [CompletionResultType]::ParameterName, 'Temperature 0.2, 0.7 or 1.0 with a top-p that suits it')
            [CompletionResult]::new('-s', '-s', [CompletionResultType]::ParameterName, 'System prompt')
            [CompletionResult]::new('--system', '--system', [CompletionResultType]::ParameterName, 'System prompt')
            [CompletionResult]::new('--template', '--template', [CompletionResultType]::ParameterName, 'Chat template in place of the model''s own: a name (chatml, …) or a Jinja file')
            [CompletionResult]::new('--think', '--think', [CompletionResultType]::ParameterName, 'Let a reasoning model think first; thoughts never reach stdout')
            [CompletionResult]::new('-n', '-n', [CompletionResultType]::ParameterName, 'Most tokens to generate [default: until the end of the turn]')
            [CompletionResult]::new('--max-tokens', '--max-tokens', [CompletionResultType]::ParameterName, 'Most tokens to generate [default: until the end of the turn]')
            [CompletionResult]::new('--stop', '--stop', [CompletionResultType]::ParameterName, 'Stop before this text (repeatable)')
            [CompletionResult]::new('--metrics-file', '--metrics-file', [CompletionResultType]::ParameterName, 'Append counts and times of each request to this file, as a line of JSON without any text of it')
            [CompletionResult]::new('--overflow', '--overflow', [CompletionResultType]::ParameterName, 'What to do when the window is full [default: slide]')
            [CompletionResult]::new('--session', '--session', [CompletionResultType]::ParameterName, 'Keep the conversation under this name, or go on with the one that is kept there')
            [CompletionResult]::new('--remove-session', '--remove-session', [CompletionResultType]::ParameterName, 'Remove a session; on a terminal it asks first, unless `--yes` is given')
            [CompletionResult]::new('-y', '-y', [CompletionResultType]::ParameterName, 'Download the model without asking when it is not here')
            [CompletionResult]::new('--yes', '--yes', [CompletionResultType]::ParameterName, 'Download the model without asking when it is not here')
            [CompletionResult]::new('--no-cache', '--no-cache', [CompletionResultType]::ParameterName, 'Neither use nor fill the cache of prompts on disk')
            [CompletionResult]::new('--stats', '--stats', [CompletionResultType]::ParameterName, 'Print statistics on stderr')
            [CompletionResult]::new('--continue', '--continue', [CompletionResultType]::ParameterName, 'Go on with the session used last')
            [CompletionResult]::new('--list-sessions', '--list-sessions', [CompletionResultType]::ParameterName, 'List the sessions')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'With `--list-sessions`, print one JSON object')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'infer;pull' {
            [CompletionResult]::new('--connections', '--connections', [CompletionResultType]::ParameterName, 'Connections per file')
            [CompletionResult]::new('--retries', '--retries', [CompletionResultType]::ParameterName, 'Attempts in a row that may bring nothing before it gives up')
            [CompletionResult]::new('--timeout', '--timeout', [CompletionResultType]::ParameterName, 'How long a server may be silent before the connection is opened anew')
            [CompletionResult]::new('--max-size', '--max-size', [CompletionResultType]::ParameterName, 'Refuse a model larger than this, such as `8GB` or `500MB`')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Say what would be fetched, and fetch nothing')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print events as lines of JSON')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'infer;list' {
            [CompletionResult]::new('-a', '-a', [CompletionResultType]::ParameterName, 'Also what no name refers to: loose files of the cache, and downloads of other programs')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'Also what no name refers to: loose files of the cache, and downloads of other programs')
            [CompletionResult]::new('--names', '--names', [CompletionResultType]::ParameterName, 'The names that `infer pull` knows, instead of what is here')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'infer;ls' {
            [CompletionResult]::new('-a', '-a', [CompletionResultType]::ParameterName, 'Also what no name refers to: loose files of the cache, and downloads of other programs')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'Also what no name refers to: loose files of the cache, and downloads of other programs')
            [CompletionResult]::new('--names', '--names', [CompletionResultType]::ParameterName, 'The names that `infer pull` knows, instead of what is here')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'infer;show' {
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object')
            [CompletionResult]::new('--template', '--template', [CompletionResultType]::ParameterName, 'Print the chat template')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'infer;fit' {
            [CompletionResult]::new('-c', '-c', [CompletionResultType]::ParameterName, 'Context that has to fit, tokens; `8k` is 8192 [default: what fits, at most 8192 or the model''s own]')
            [CompletionResult]::new('--ctx', '--ctx', [CompletionResultType]::ParameterName, 'Context that has to fit, tokens; `8k` is 8192 [default: what fits, at most 8192 or the model''s own]')
            [CompletionResult]::new('--kv', '--kv', [CompletionResultType]::ParameterName, 'Type of the KV cache; `q8_0` takes half the memory of `f16`, `q4_0` less than a third')
            [CompletionResult]::new('--device', '--device', [CompletionResultType]::ParameterName, 'Use this device only, such as `cuda`, `cuda1` or `cpu`')
            [CompletionResult]::new('-t', '-t', [CompletionResultType]::ParameterName, 'Threads [default: the cores that this process may use]')
            [CompletionResult]::new('--threads', '--threads', [CompletionResultType]::ParameterName, 'Threads [default: the cores that this process may use]')
            [CompletionResult]::new('-a', '-a', [CompletionResultType]::ParameterName, 'Also those that do not fit, and why')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'Also those that do not fit, and why')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'infer;rm' {
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Say what would be removed, and remove nothing')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'Everything that is here of the repositories, other programs'' files too')
            [CompletionResult]::new('-y', '-y', [CompletionResultType]::ParameterName, 'Do not ask')
            [CompletionResult]::new('--yes', '--yes', [CompletionResultType]::ParameterName, 'Do not ask')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'infer;remove' {
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Say what would be removed, and remove nothing')
            [CompletionResult]::new('--all', '--all', [CompletionResultType]::ParameterName, 'Everything that is here of the repositories, other programs'' files too')
            [CompletionResult]::new('-y', '-y', [CompletionResultType]::ParameterName, 'Do not ask')
            [CompletionResult]::new('--yes', '--yes', [CompletionResultType]::ParameterName, 'Do not ask')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'infer;cache' {
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'List what is kept, what was used last first')
            [CompletionResult]::new('ls', 'ls', [CompletionResultType]::ParameterValue, 'List what is kept, what was used last first')
            [CompletionResult]::new('clear', 'clear', [CompletionResultType]::ParameterValue, 'Remove all of it')
            break
        }
        'infer;cache;list' {
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'infer;cache;ls' {
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'infer;cache;clear' {
            [CompletionResult]::new('-y', '-y', [CompletionResultType]::ParameterName, 'Do not ask')
            [CompletionResult]::new('--yes', '--yes', [CompletionResultType]::ParameterName, 'Do not ask')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'infer;doctor' {
            [CompletionResult]::new('--offline', '--offline', [CompletionResultType]::ParameterName, 'Do not ask the hub; `HF_HUB_OFFLINE=1` does the same')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'infer;bench' {
            [CompletionResult]::new('-p', '-p', [CompletionResultType]::ParameterName, 'Prompts to evaluate, tokens; 0 for none')
            [CompletionResult]::new('--prompt', '--prompt', [CompletionResultType]::ParameterName, 'Prompts to evaluate, tokens; 0 for none')
            [CompletionResult]::new('-g', '-g', [CompletionResultType]::ParameterName, 'Tokens to generate; 0 for none')
            [CompletionResult]::new('-n', '-n', [CompletionResultType]::ParameterName, 'Tokens to generate; 0 for none')
            [CompletionResult]::new('--gen', '--gen', [CompletionResultType]::ParameterName, 'Tokens to generate; 0 for none')
            [CompletionResult]::new('-d', '-d', [CompletionResultType]::ParameterName, 'Tokens in the cache before each test [default: 0,2048, as far as the model''s context reaches]')
            [CompletionResult]::new('--depth', '--depth', [CompletionResultType]::ParameterName, 'Tokens in the cache before each test [default: 0,2048, as far as the model''s context reaches]')
            [CompletionResult]::new('-a', '-a', [CompletionResultType]::ParameterName, 'A whole answer: tokens of the prompt and of the answer (repeatable); `0+0` for none')
            [CompletionResult]::new('--answer', '--answer', [CompletionResultType]::ParameterName, 'A whole answer: tokens of the prompt and of the answer (repeatable); `0+0` for none')
            [CompletionResult]::new('-r', '-r', [CompletionResultType]::ParameterName, 'Repetitions of each test')
            [CompletionResult]::new('--repetitions', '--repetitions', [CompletionResultType]::ParameterName, 'Repetitions of each test')
            [CompletionResult]::new('-t', '-t', [CompletionResultType]::ParameterName, 'Threads [default: the cores that this process may use]')
            [CompletionResult]::new('--threads', '--threads', [CompletionResultType]::ParameterName, 'Threads [default: the cores that this process may use]')
            [CompletionResult]::new('-b', '-b', [CompletionResultType]::ParameterName, 'Tokens of one evaluation [default: 512, or the micro-batch if that is larger]')
            [CompletionResult]::new('--batch', '--batch', [CompletionResultType]::ParameterName, 'Tokens of one evaluation [default: 512, or the micro-batch if that is larger]')
            [CompletionResult]::new('-u', '-u', [CompletionResultType]::ParameterName, 'Tokens of a micro-batch, at most those of one evaluation [default: 512]')
            [CompletionResult]::new('--ubatch', '--ubatch', [CompletionResultType]::ParameterName, 'Tokens of a micro-batch, at most those of one evaluation [default: 512]')
            [CompletionResult]::new('--kv', '--kv', [CompletionResultType]::ParameterName, 'Types of the KV cache')
            [CompletionResult]::new('--flash', '--flash', [CompletionResultType]::ParameterName, 'Flash attention')
            [CompletionResult]::new('--gpu-layers', '--gpu-layers', [CompletionResultType]::ParameterName, 'Layers on the GPU: numbers, `auto` (what fits) or `all`')
            [CompletionResult]::new('--ngl', '--ngl', [CompletionResultType]::ParameterName, 'Layers on the GPU: numbers, `auto` (what fits) or `all`')
            [CompletionResult]::new('--device', '--device', [CompletionResultType]::ParameterName, 'Use this device and fail if it isn''t there, such as `cuda`, `cuda1` or `cpu`')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Form of the rows on stdout; `json`, `jsonl`, `csv` and `md` have llama-bench''s names')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Form of the rows on stdout; `json`, `jsonl`, `csv` and `md` have llama-bench''s names')
            [CompletionResult]::new('--baseline', '--baseline', [CompletionResultType]::ParameterName, 'Compare with the rows of an earlier `-o json` or `-o jsonl`, of llama-bench''s too')
            [CompletionResult]::new('--fail-slower', '--fail-slower', [CompletionResultType]::ParameterName, 'Exit with 1 when a row is slower than the baseline by more than this many percent')
            [CompletionResult]::new('--plot', '--plot', [CompletionResultType]::ParameterName, 'Draw tokens per second over depth into this file')
            [CompletionResult]::new('-y', '-y', [CompletionResultType]::ParameterName, 'Download a model without asking when it is not here')
            [CompletionResult]::new('--yes', '--yes', [CompletionResultType]::ParameterName, 'Download a model without asking when it is not here')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'The same as `-o json`')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'infer;tune' {
            [CompletionResult]::new('--seconds', '--seconds', [CompletionResultType]::ParameterName, 'About how long to measure; with less time prompts are shorter and caches less deep')
            [CompletionResult]::new('--device', '--device', [CompletionResultType]::ParameterName, 'Use this device and fail if it isn''t there, such as `cuda`, `cuda1` or `cpu`')
            [CompletionResult]::new('--clear', '--clear', [CompletionResultType]::ParameterName, 'Forget what is remembered for models like this one, or without a model all of it')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Measure and show, but do not remember')
            [CompletionResult]::new('-y', '-y', [CompletionResultType]::ParameterName, 'Download the model without asking when it is not here')
            [CompletionResult]::new('--yes', '--yes', [CompletionResultType]::ParameterName, 'Download the model without asking when it is not here')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'infer;quantize' {
            [CompletionResult]::new('--to', '--to', [CompletionResultType]::ParameterName, 'The type to make: int4, int8, or one of those below')
            [CompletionResult]::new('-o', '-o', [CompletionResultType]::ParameterName, 'Write this file')
            [CompletionResult]::new('--output', '--output', [CompletionResultType]::ParameterName, 'Write this file')
            [CompletionResult]::new('--as', '--as', [CompletionResultType]::ParameterName, 'Keep it under this name, for `infer run NAME` [default: made from the source''s name]')
            [CompletionResult]::new('--imatrix', '--imatrix', [CompletionResultType]::ParameterName, 'Use an importance matrix, a file of llama.cpp''s or of `--calibrate`')
            [CompletionResult]::new('--calibrate', '--calibrate', [CompletionResultType]::ParameterName, 'Compute an importance matrix from this text first, and keep it beside the result')
            [CompletionResult]::new('-t', '-t', [CompletionResultType]::ParameterName, 'Threads [default: the cores that this process may use]')
            [CompletionResult]::new('--threads', '--threads', [CompletionResultType]::ParameterName, 'Threads [default: the cores that this process may use]')
            [CompletionResult]::new('--check-text', '--check-text', [CompletionResultType]::ParameterName, 'Measure on this text in place of the one inside the program')
            [CompletionResult]::new('--fail-below', '--fail-below', [CompletionResultType]::ParameterName, 'Exit with 1 when the verdict is worse')
            [CompletionResult]::new('--compare', '--compare', [CompletionResultType]::ParameterName, 'Only measure: how the predictions of B differ from those of A; without B, the perplexity of A')
            [CompletionResult]::new('--allow-requantize', '--allow-requantize', [CompletionResultType]::ParameterName, 'Take a source that is quantized already')
            [CompletionResult]::new('--dry-run', '--dry-run', [CompletionResultType]::ParameterName, 'Show the plan, and make nothing')
            [CompletionResult]::new('--no-check', '--no-check', [CompletionResultType]::ParameterName, 'Do not measure the result')
            [CompletionResult]::new('-y', '-y', [CompletionResultType]::ParameterName, 'Download the source, or replace the result, without asking')
            [CompletionResult]::new('--yes', '--yes', [CompletionResultType]::ParameterName, 'Download the source, or replace the result, without asking')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Print one JSON object')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'infer;quantize-worker' {
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'json')
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'infer;completions' {
            [CompletionResult]::new('-q', '-q', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('--quiet', '--quiet', [CompletionResultType]::ParameterName, 'Only errors and what was asked for')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'More on stderr; `-vv` also the log of llama.cpp')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'infer;help' {
            [CompletionResult]::new('run', 'run', [CompletionResultType]::ParameterValue, 'Answer one prompt')
            [CompletionResult]::new('chat', 'chat', [CompletionResultType]::ParameterValue, 'Hold a conversation')
            [CompletionResult]::new('pull', 'pull', [CompletionResultType]::ParameterValue, 'Download a model from the hub, or go on with a download')
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'List the models on this machine, and downloads that did not end')
            [CompletionResult]::new('show', 'show', [CompletionResultType]::ParameterValue, 'Show what is in a model, and whether one of the hub would fit here')
            [CompletionResult]::new('fit', 'fit', [CompletionResultType]::ParameterValue, 'List the models that this machine can run, and how fast at most')
            [CompletionResult]::new('rm', 'rm', [CompletionResultType]::ParameterValue, 'Remove models and partial downloads')
            [CompletionResult]::new('cache', 'cache', [CompletionResultType]::ParameterValue, 'List or clear what was kept of prompts on disk')
            [CompletionResult]::new('doctor', 'doctor', [CompletionResultType]::ParameterValue, 'Check this machine and this build, and say what to do about what is not right')
            [CompletionResult]::new('bench', 'bench', [CompletionResultType]::ParameterValue, 'Measure how fast models are here, and how near to what this machine allows')
            [CompletionResult]::new('tune', 'tune', [CompletionResultType]::ParameterValue, 'Measure which settings are fastest here for a model, and remember them')
            [CompletionResult]::new('quantize', 'quantize', [CompletionResultType]::ParameterValue, 'Make a smaller INT8 or INT4 model of a file, and measure what was lost')
            [CompletionResult]::new('quantize-worker', 'quantize-worker', [CompletionResultType]::ParameterValue, 'The process that quantizes, started by `quantize`')
            [CompletionResult]::new('completions', 'completions', [CompletionResultType]::ParameterValue, 'Print a completion script for a shell')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'infer;help;run' {
            break
        }
        'infer;help;chat' {
            break
        }
        'infer;help;pull' {
            break
        }
        'infer;help;list' {
            break
        }
        'infer;help;show' {
            break
        }
        'infer;help;fit' {
            break
        }
        'infer;help;rm' {
            break
        }
        'infer;help;cache' {
            [CompletionResult]::new('list', 'list', [CompletionResultType]::ParameterValue, 'List what is kept, what was used last first')
            [CompletionResult]::new('clear', 'clear', [CompletionResultType]::ParameterValue, 'Remove all of it')
            break
        }
        'infer;help;cache;list' {
            break
        }
        'infer;help;cache;clear' {
            break
        }
        'infer;help;doctor' {
            break
        }
        'infer;help;bench' {
            break
        }
        'infer;help;tune' {
            break
        }
        'infer;help;quantize' {
            break
        }
        'infer;help;quantize-worker' {
            break
        }
        'infer;help;completions' {
            break
        }
        'infer;help;help' {
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
