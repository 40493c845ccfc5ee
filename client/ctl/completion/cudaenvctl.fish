# SPDX-License-Identifier: MIT
# fish completion for cudaenvctl: asks the program itself.

function __cudaenvctl_complete
    set -l tokens (commandline -opc) (commandline -ct)
    for line in ($tokens[1] __complete -- $tokens[2..-1] 2>/dev/null)
        switch $line
            case :file
                __fish_complete_path (string replace -r '^--[a-z-]+=' '' -- $tokens[-1]) | __cudaenvctl_behind $tokens[-1]
            case :directory
                __fish_complete_directories (string replace -r '^--[a-z-]+=' '' -- $tokens[-1]) '' | __cudaenvctl_behind $tokens[-1]
            case ':command *'
                set -l first (math (string replace ':command ' '' -- $line) + 2)
                complete -C (string join ' ' -- (string escape -- $tokens[$first..-2]) $tokens[-1])
            case '*'
                echo $line
        end
    end
end

# Names of files behind the --option= of WORD.
function __cudaenvctl_behind
    set -l option (string match -r '^--[a-z-]+=' -- $argv[1])
    while read -l name
        printf '%s\n' "$option$name"
    end
end

complete -c cudaenvctl -f -k -a '(__cudaenvctl_complete)'
