#compdef watchkeeper
# Completion of watchkeeper for zsh: the program itself is asked what may come next.

_watchkeeper() {
    local -a lines candidates
    local line directive=0

    lines=("${(@f)$("${words[1]/#\~/$HOME}" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    for line in "${lines[@]}"; do
        case $line in
            '') ;;
            :*) directive=${line#:} ;;
            # Colons divide a candidate from its description, so its own are marked.
            *$'\t'*) candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
            *) candidates+=("${line//:/\\:}") ;;
        esac
    done

    local -a options
    ((directive & 2)) && options=(-S '')
    ((${#candidates})) && _describe watchkeeper candidates "${options[@]}"
    ((directive & 4)) || _files
}

if [[ ${funcstack[1]} == _watchkeeper ]]; then
    # zsh has loaded this file to complete something.
    _watchkeeper
else
    compdef _watchkeeper watchkeeper
fi
