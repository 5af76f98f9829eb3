// What Flux and Argo CD make of objects, with the engines that they use: CEL in Go, and Lua in Go.
//
// Reads from its input {"lua": script, "cel": {"inProgress", "failed", "current"}, "objects": [...]}
// and prints for each object what either tool would say of it.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/google/cel-go/cel"
	lua "github.com/yuin/gopher-lua"
)

type object = map[string]any

type question struct {
	Lua     string            `json:"lua"`
	Cel     map[string]string `json:"cel"`
	Objects []object          `json:"objects"`
}

type answer struct {
	Argo    string `json:"argo"`
	Message string `json:"message"`
	Flux    string `json:"flux"`
}

// The fields by which Flux lets expressions name parts of an object.
var fields = []string{"apiVersion", "kind", "metadata", "spec", "status"}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return err
	}
	answers := []answer{}
	for _, each := range asked.Objects {
		status, message, err := argo(asked.Lua, each)
		if err != nil {
			return err
		}
		verdict, err := flux(asked.Cel, each)
		if err != nil {
			return err
		}
		answers = append(answers, answer{status, message, verdict})
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}

// argo runs the script as Argo CD does: the object is the global `obj`, the health is returned.
func argo(script string, about object) (string, string, error) {
	state := lua.NewState()
	defer state.Close()
	state.SetGlobal("obj", value(state, about))
	if err := state.DoString(script); err != nil {
		return "", "", err
	}
	health, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return "", "", fmt.Errorf("the script returned %s", state.Get(-1).Type())
	}
	return health.RawGetString("status").String(), health.RawGetString("message").String(), nil
}

func value(state *lua.LState, from any) lua.LValue {
	switch typed := from.(type) {
	case bool:
		return lua.LBool(typed)
	case float64:
		return lua.LNumber(typed)
	case string:
		return lua.LString(typed)
	case []any:
		table := state.CreateTable(len(typed), 0)
		for _, each := range typed {
			table.Append(value(state, each))
		}
		return table
	case map[string]any:
		table := state.CreateTable(0, len(typed))
		for name, each := range typed {
			table.RawSetString(name, value(state, each))
		}
		return table
	}
	return lua.LNil
}

// flux goes by its RFC 9: the generation first, then the expressions in this order.
func flux(expressions map[string]string, about object) (string, error) {
	metadata, _ := about["metadata"].(object)
	status, _ := about["status"].(object)
	if observed, ok := status["observedGeneration"]; ok && observed != metadata["generation"] {
		return "inProgress", nil
	}
	for _, name := range []string{"inProgress", "failed", "current"} {
		holds, err := evaluate(expressions[name], about)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		if holds {
			return name, nil
		}
	}
	return "inProgress", nil
}

func evaluate(expression string, about object) (bool, error) {
	options := []cel.EnvOption{}
	input := map[string]any{}
	for _, name := range fields {
		options = append(options, cel.Variable(name, cel.DynType))
		input[name] = about[name]
	}
	environment, err := cel.NewEnv(options...)
	if err != nil {
		return false, err
	}
	checked, issues := environment.Compile(expression)
	if issues.Err() != nil {
		return false, issues.Err()
	}
	program, err := environment.Program(checked)
	if err != nil {
		return false, err
	}
	result, _, err := program.Eval(input)
	if err != nil {
		return false, err
	}
	return result.Value() == true, nil
}
