# Completion of watchkeeper for fish: the program itself is asked what may come next.

function __watchkeeper_candidates
    set -l words (commandline --tokenize --cut-at-cursor --current-process)
    set -l current (commandline --current-token --cut-at-cursor)
    set -l directive 0
    for line in ($words[1] __complete -- $words[2..-1] "$current" 2>/dev/null)
        if string match --quiet --regex '^:[0-9]+$' -- $line
            set directive (string sub --start 2 -- $line)
        else
            printf '%s\n' $line
        end
    end
    # Bit 4 says that no file fits here.
    if test (math "floor($directive / 4) % 2") -eq 0
        __fish_complete_path "$current"
    end
end

complete --command watchkeeper --no-files --arguments '(__watchkeeper_candidates)'
