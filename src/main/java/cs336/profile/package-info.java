/**
 * Where time and memory go: what a program did on threads and cards, event by event, and each block of memory that it
 * had, recorded as it happens, told apart by what it is for, and, for memory, predicted.
 */
package cs336.profile;
