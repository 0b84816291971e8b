# Completion of quadsim in zsh: eval "$(python -m quadsim completion zsh)"

_quadsim() {
    local -a program given lines names shown open_names open_shown
    local first=2 line word about settings typed value
    program=("${words[1]/#\~\//$HOME/}")
    if [[ ${program[1]:t} == python* ]]; then
        program+=(-m quadsim)
        first=4
    fi
    given=("${(@Q)words[first,CURRENT - 1]}") # without quotes: no text is evaluated
    ((CURRENT > first)) || given=()
    typed=${(Q)PREFIX}
    lines=("${(@f)$("${program[@]}" completion --complete "${given[@]}" "$typed" 2> /dev/null < /dev/null)}")
    settings=${lines[1]}

    local kept=0
    if [[ $typed == *=* ]]; then
        value=${typed##*[=,+]}
        kept=$((${#typed} - ${#value}))
        [[ $settings == *' '* ]] && kept=$((${#typed} - ${#${typed#*=}})) && compset -P 1 '*=' || compset -P '*[=,+]'
    fi
    for line in "${(@)lines[2,-1]}"; do
        word=${line%%$'\t'*}
        about=${line#*$'\t'}
        word=${word[kept + 1,-1]}
        if [[ $word == *[=.] || $settings == open* ]]; then
            open_names+=("$word")
            open_shown+=("$word${about:+  -- $about}")
        else
            names+=("$word")
            shown+=("$word${about:+  -- $about}")
        fi
    done
    local found=1
    ((${#open_names})) && compadd -S '' -l -d open_shown -a -- open_names && found=0
    ((${#names})) && compadd -l -d shown -a -- names && found=0
    if [[ $settings == *' '* ]]; then
        local -a suffixes
        suffixes=("${(@s: :)settings#* }")
        if [[ ${suffixes[1]} == / ]]; then
            _files -/ && found=0
        elif [[ ${suffixes[1]} == '*' ]]; then
            _files && found=0
        else
            _files -g "${(j: :)suffixes/#/*}" && found=0 # *.npz *.csv
        fi
    fi
    return found
}

_quadsim_python() {
    if [[ ${words[2]} == -m && ${words[3]} == quadsim ]] && ((CURRENT > 3)); then
        _quadsim
    else
        ${_quadsim_python_before:-_default} "$@" # the completion of python that was set before
    fi
}

((${+functions[compdef]})) || { autoload -Uz compinit && compinit }
[[ ${_comps[python]:-} == _quadsim_python ]] || typeset -g _quadsim_python_before=${_comps[python]:-_default}
compdef _quadsim quadsim
compdef _quadsim_python python python3
