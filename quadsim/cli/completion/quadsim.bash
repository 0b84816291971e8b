# Completion of quadsim in bash: eval "$(python -m quadsim completion bash)"

_quadsim() {
    # COMP_WORDS is split at "=" and ":" too: the words are put together again from the text before the cursor.
    local rest=${COMP_LINE:0:COMP_POINT} word bare spaces i
    local -a words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        spaces=${rest%%[![:space:]]*}
        rest=${rest#"$spaces"}
        word=${COMP_WORDS[i]}
        ((i == COMP_CWORD)) && word=$rest
        rest=${rest#"$word"}
        if [[ -n $spaces || ${#words[@]} -eq 0 ]]; then
            words+=("$word")
        else
            words[${#words[@]} - 1]+=$word
        fi
    done

    local -a program=("${words[0]/#\~\//$HOME/}") given
    local first=1 typed=${words[${#words[@]} - 1]}
    if [[ ${program[0]##*/} == python* ]]; then
        [[ ${words[1]} == -m && ${words[2]} == quadsim && ${#words[@]} -gt 3 ]] || return 0
        program+=(-m quadsim)
        first=3
    fi
    for word in "${words[@]:first}"; do
        given+=("${word//[\"\'\\]/}") # as far as completion needs: no text is evaluated
    done
    local current=${given[${#given[@]} - 1]}

    # Readline replaces what follows the last character at which it breaks words, or all after an opening quote.
    local kept=0 breaks=${COMP_WORDBREAKS//[!=:]/}
    [[ $typed == [\"\']* ]] && breaks=""
    [[ -n $breaks && $current == *[$breaks]* ]] && word=${current##*[$breaks]} && kept=$((${#current} - ${#word}))

    COMPREPLY=()
    local line settings="" is_open=1 quoted=0
    [[ $typed == *[\"\']* ]] && quoted=1 && compopt -o filenames 2> /dev/null # readline quotes names of files
    while IFS= read -r line; do
        if [[ -z $settings ]]; then
            settings=$line
            continue
        fi
        word=${line%%$'\t'*}
        [[ $word == *[=.] || $settings == open* ]] || is_open=0
        COMPREPLY+=("${word:kept}")
    done < <("${program[@]}" completion --complete "${given[@]}" 2> /dev/null < /dev/null)

    local -a suffixes=()
    read -r -a suffixes <<< "${settings#* }"
    [[ $settings == *" "* ]] || suffixes=()
    local value=$current suffix file shown
    [[ $current == *=* ]] && value=${current#*=}
    local tilde=${value/#\~\//$HOME/}
    if ((${#suffixes[@]})); then
        for file in "$tilde"*; do
            [[ -e $file ]] || continue
            if [[ ! -d $file ]]; then
                for suffix in "${suffixes[@]}"; do
                    [[ $suffix == "*" || ($suffix != / && $file == *"$suffix") ]] && break
                done
                [[ $suffix == "*" || ($suffix != / && $file == *"$suffix") ]] || continue
                is_open=0
            fi
            shown=$file
            ((quoted)) || printf -v shown %q "$file"
            [[ $value == "~/"* ]] && shown="~/${shown#"$HOME/"}"
            [[ -d $file ]] && ((!quoted)) && shown+=/
            [[ $breaks == *=* || $current != *=* ]] || shown=${current%%=*}=$shown
            COMPREPLY+=("$shown")
        done
    fi
    ((is_open)) && compopt -o nospace 2> /dev/null
    return 0
}

complete -F _quadsim quadsim
# For `python -m quadsim`, unless another completion of python is set; in all other lines files are completed.
complete -p python > /dev/null 2>&1 || complete -o bashdefault -o default -F _quadsim python
complete -p python3 > /dev/null 2>&1 || complete -o bashdefault -o default -F _quadsim python3
