package cs336.basics;

import java.util.List;
import java.util.ServiceLoader;
import java.util.ServiceLoader.Provider;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** The registered services of a type. Reading their registrations takes long, so it is done once. */
final class Services {
    private static final ClassValue<List<? extends Provider<?>>> PROVIDERS = new ClassValue<>() {
        @Override
        protected List<? extends Provider<?>> computeValue(Class<?> service) {
            // In a notebook the thread's class loader does not find the services of this jar.
            return ServiceLoader.load(service, Services.class.getClassLoader()).stream()
                    .toList();
        }
    };

    private Services() {}

    /** Returns a new instance of each service, in the order of registration. */
    static <S> Stream<S> of(Class<S> service) {
        return PROVIDERS.get(service).stream().map(provider -> service.cast(provider.get()));
    }

    /**
     * Returns a new instance of the service of this name.
     *
     * @param what the kind of service, for the error message
     * @throws IllegalArgumentException if there is none; the message lists the known names
     */
    static <S> S named(String what, String name, Class<S> service, Function<S, String> nameOf) {
        return of(service)
                .filter(candidate -> nameOf.apply(candidate).equals(name))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException(what + " '" + name + "' is unknown; known: "
                        + of(service).map(nameOf).sorted().collect(Collectors.joining(", "))));
    }
}
