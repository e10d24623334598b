# Completion of watchkeeper for bash: the program itself is asked what may come next.

_watchkeeper() {
    local -a words=()
    local current=${COMP_WORDS[COMP_CWORD]} breaks='^[=:]+$' glue='' directive=0 i line typed already

    # Bash cuts words at = and :, the program does not.
    for ((i = 1; i <= COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} =~ $breaks && ${#words[@]} -gt 0 ]]; then
            words[${#words[@]} - 1]+=${COMP_WORDS[i]}
            glue=yes
        elif [[ $glue ]]; then
            words[${#words[@]} - 1]+=${COMP_WORDS[i]}
            glue=''
        else
            words+=("${COMP_WORDS[i]}")
        fi
    done

    # What stands before the part that bash will replace.
    typed=$current
    [[ $typed =~ $breaks ]] && typed=''
    already=${words[${#words[@]} - 1]}
    already=${already%"$typed"}

    COMPREPLY=()
    while IFS='' read -r line; do
        if [[ $line == :* ]]; then
            directive=${line#:}
        else
            line=${line%%$'\t'*}
            COMPREPLY+=("${line#"$already"}")
        fi
    done < <("${1/#\~/$HOME}" __complete -- "${words[@]}" 2>/dev/null)

    ((directive & 2)) && compopt -o nospace 2>/dev/null
    ((directive & 4)) || compopt -o default 2>/dev/null
    return 0
}

complete -F _watchkeeper watchkeeper
