// Package isnil finds a nil pointer within an interface, which == nil does not find.
package isnil

import "reflect"

// Is reports whether value is nil or a nil pointer.
func Is(value any) bool {
	v := reflect.ValueOf(value)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
