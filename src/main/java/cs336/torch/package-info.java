/**
 * The one room that touches the rough edges of the PyTorch presets: loading natives, devices, dtypes, memory scopes,
 * autocast, operators without a binding, functions with a backward pass in Java. It knows no other package of this
 * project.
 */
package cs336.torch;
