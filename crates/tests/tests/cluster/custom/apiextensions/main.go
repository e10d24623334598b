// Asks the code of the real apiextensions-apiserver about definitions, one JSON object per line: they must be valid, and
// its defaulting and conversion must leave them as they are. See .ci/apiextensions.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/runtime"
)

// The longest definition.
const maxBytes = 1 << 24

func main() {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	lines, count := bufio.NewScanner(os.Stdin), 0
	lines.Buffer(nil, maxBytes)
	for ; lines.Scan(); count++ {
		if err := check(scheme, lines.Bytes()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if lines.Err() != nil || count == 0 {
		fmt.Fprintln(os.Stderr, "no definitions:", lines.Err())
		os.Exit(1)
	}
	fmt.Printf("%d definitions are accepted\n", count)
}

func check(scheme *runtime.Scheme, line []byte) error {
	var given v1.CustomResourceDefinition
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&given); err != nil {
		return err
	}
	stored := given.DeepCopy()
	scheme.Default(stored)
	var internal apiextensions.CustomResourceDefinition
	if err := scheme.Convert(stored, &internal, nil); err != nil {
		return fmt.Errorf("%s: %w", given.Name, err)
	}
	// A create sets it.
	internal.Status.StoredVersions = []string{}
	for _, version := range internal.Spec.Versions {
		if version.Storage {
			internal.Status.StoredVersions = append(internal.Status.StoredVersions, version.Name)
		}
	}
	if errs := validation.ValidateCustomResourceDefinition(context.Background(), &internal); len(errs) > 0 {
		return fmt.Errorf("%s: %w", given.Name, errs.ToAggregate())
	}
	if err := scheme.Convert(&internal, stored, nil); err != nil {
		return fmt.Errorf("%s: %w", given.Name, err)
	}
	before, after := value(given.Spec), value(stored.Spec)
	if !reflect.DeepEqual(before, after) {
		return fmt.Errorf("%s is stored differently:\n%v\n%v", given.Name, before, after)
	}
	return nil
}

func value(spec v1.CustomResourceDefinitionSpec) (value any) {
	text, err := json.Marshal(spec)
	if err == nil {
		err = json.Unmarshal(text, &value)
	}
	if err != nil {
		panic(err)
	}
	return value
}
